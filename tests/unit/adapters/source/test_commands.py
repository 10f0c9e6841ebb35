"""What sources offer to commands, and what becomes of a source that lacks a module or has a broken one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from adapters.source.commands import offered
from engine.config import parse
from tests.unit.engine.config.least import POSTGRES

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("runs", "name", "expected"),
    [
        ("adapters.postgres.job", "inspection", "adapters.postgres.commands.inspection"),
        ("adapters.postgres.job", "nothing", None),
        ("tests.toys.memory", "inspection", None),
        ("alone", "inspection", None),
        ("", "inspection", None),
    ],
)
def test_a_source_may_lack_what_commands_ask_for(runs: str, name: str, expected: str | None):
    found = offered(replace(parse(POSTGRES), runs=runs), name)

    assert expected == (found and found.__name__)


def test_a_module_that_cannot_be_imported_is_not_taken_for_one_that_is_lacking(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    room = tmp_path / "broken_source" / "commands"
    room.mkdir(parents=True)
    (room / "inspection.py").write_text("import no_such_driver")
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(ModuleNotFoundError, match="no_such_driver"):
        offered(replace(parse(POSTGRES), runs="broken_source.job"), "inspection")
