"""What the suite keeps of its runs, and what it runs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.bench.__main__ import parser
from tests.bench.peers.__main__ import parser as peers_parser
from tests.bench.suite import ITEMS, OURS, PEERS, Item, Kept, _run


@pytest.mark.parametrize("item", [*OURS, *PEERS], ids=lambda item: item.name)
def test_each_item_is_a_command_that_its_module_understands(item: Item) -> None:
    _, _, module, *words = item.command(3)

    options = (parser() if module == "tests.bench" else peers_parser()).parse_args(words)
    assert options.runs == (3 if item.repeated else 1)


def test_names_of_items_are_their_own() -> None:
    assert len(ITEMS) == len(OURS) + len(PEERS)


def test_a_benchmark_run_anew_takes_the_place_of_its_older_lines(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    Kept(path).replace("stream-wide", [{"per_s": 1}], {"date": "monday"})
    Kept(path).replace("snapshot-wide", [{"per_s": 2}], {"date": "monday"})
    Kept(path).replace("stream-wide", [{"per_s": 3}, {"per_s": 4}], {"date": "monday"})

    assert Kept(path).lines() == [{"per_s": 2}, {"per_s": 3}, {"per_s": 4}]


def test_one_that_measured_nothing_leaves_what_there_was(tmp_path: Path) -> None:
    kept = Kept(tmp_path / "results.jsonl")
    kept.replace("memory", [{"peak_mib": 1}], {})
    kept.replace("memory", [], {})

    assert kept.lines() == [{"peak_mib": 1}]


def test_a_setting_that_differs_is_told_with_its_items(tmp_path: Path) -> None:
    kept = Kept(tmp_path / "results.jsonl")
    for item, date in (("memory", "monday"), ("tables", "friday"), ("latency", "monday")):
        kept.replace(item, [{}], {"date": date, "machine": "this one"})

    assert kept.setting() == {"date": "monday (latency, memory); friday (tables)", "machine": "this one"}


def test_lines_of_a_benchmark_that_fails_are_kept_with_what_it_said_last() -> None:
    fails = "import sys; print('{\"per_s\":1}'); print('so it is'); sys.exit('out of memory')"

    assert _run([sys.executable, "-c", fails]) == ([{"per_s": 1}], "out of memory\n")
    assert _run([sys.executable, "-c", "print('{}')"]) == ([{}], None)
