"""The results as a page of Markdown, with bars of text. Pure: records in, text out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.bench.reach import verdicts
from tests.bench.results import chosen, results

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.bench.reach import Verdict
    from tests.bench.results import Line, Result, Spread

_BAR = 40
_TRANSACTIONS = {0: "in one transaction", 1: "a transaction each"}
_INTRODUCTION = """\
# Results

Written by `make bench` and `make bench-peers`; medians, with the least and the most of the runs in
parentheses. The limit is what the database's own client reached on the same database right before and after:
`COPY … TO STDOUT` for snapshots, `pg_recvlogical` for backlogs, a plain loop of PyMongo for documents.
`rows` of a backlog are inserted, then updated: twice as many events. Machines differ; ratios travel better.
"""


def page(lines: Sequence[Line], setting: Mapping[str, str]) -> str:
    """Everything measured; `setting` says when, where and with what."""
    found = results(lines)
    parts = [_INTRODUCTION, "".join(f"- {name}: {value}\n" for name, value in setting.items())]
    parts += [f"## Reach\n\n{_reach(verdicts(lines))}"]
    for heading, body in (
        ("Throughput", _throughput(found)),
        ("The database's CPU", _cpu(found)),
        ("Latency", _latency(found)),
        ("Memory", _memory(found)),
        ("Many tables", _many(found)),
        ("Beside Debezium", _peers(found)),
    ):
        if body:
            parts.append(f"## {heading}\n\n{body}")
    return "\n".join(parts)


def _reach(found: Sequence[Verdict]) -> str:
    words = {True: "yes", False: "**no**", None: "not measured"}
    return table(
        ("goal", "wanted", "figure", "reached"),
        [(result.goal, wanted(result), figure(result.figure), words[result.reached]) for result in found],
    )


def wanted(verdict: Verdict) -> str:
    """The bound, in a word or two."""
    if verdict.least is not None:
        return f"at least {figure(verdict.least)}"
    return f"at most {figure(verdict.most)}"


def _throughput(found: Sequence[Result]) -> str:
    rated = [result for result in found if "limit_per_s" in result.measured]
    if not rated:
        return ""
    rows = [
        (named(result), f"{result.what['rows']:,}", *_cells(result, "per_s", "limit_per_s", "ratio"))
        for result in rated
    ]
    return table(("", "rows", "events/s", "limit", "ratio"), rows) + bars(
        "Of the limit", [(named(result), result.mid("ratio")) for result in rated]
    )


def _cpu(found: Sequence[Result]) -> str:
    rated = [result for result in found if "cpu_ratio" in result.measured]
    names = ("cpu_s_per_million", "limit_cpu_s_per_million", "cpu_ratio")
    heads = ("", "CPU s per million rows", "COPY's", "ratio")
    return table(heads, [(named(result), *_cells(result, *names)) for result in rated]) if rated else ""


def _latency(found: Sequence[Result]) -> str:
    rated = chosen(found, bench="latency")
    rows = [
        (
            f"{result.what['writes_per_s']:,}",
            "yes" if result.what["snapshot"] else "no",
            str(result.what["sink"]),
            *_cells(result, "p50_ms", "p99_ms"),
        )
        for result in rated
    ]
    text = table(("writes/s", "snapshot", "sink", "p50, ms", "p99, ms"), rows) if rows else ""
    for result in chosen(found, bench="idle"):
        ours, theirs = _cells(result, "cpu_percent", "database_cpu_percent")
        text += f"\nIdle: {ours}% of one core, and {theirs}% in the database.\n"
    return text


def _memory(found: Sequence[Result]) -> str:
    rated = chosen(found, bench="memory")
    if not rated:
        return ""
    names = ("peak_mib", "driver_mib", "jvm_mib", "workers_mib", "per_s")
    rows = [
        (f"{result.what['rows']:,}", str(result.what["table"]), *_cells(result, *names)) for result in rated
    ]
    heads = ("rows", "table", "peak, MiB", "driver", "JVM", "workers", "rows/s")
    return table(heads, rows) + bars(
        "Peak of 2,048 MiB",
        [(f"{result.what['rows']:,} rows", result.mid("peak_mib") / 2048) for result in rated],
    )


def _many(found: Sequence[Result]) -> str:
    names = ("seconds", "jobs", "transactions")
    rows = [
        (
            str(result.what["table"]),
            f"{result.what['tables']:,}",
            f"{result.what['rows']:,}",
            *_cells(result, *names),
        )
        for result in chosen(found, bench="tables")
    ]
    return table(("", "tables", "rows", "s", "Spark jobs", "transactions"), rows) if rows else ""


def _peers(found: Sequence[Result]) -> str:
    rated = chosen(found, bench="peers")
    if not rated:
        return ""
    rows = [
        (_peer(result), f"{result.what['rows']:,}", *_cells(result, "per_s", "peer_per_s", "ratio"))
        for result in rated
    ]
    most = max(result.mid("ratio") for result in rated)
    text = table(("", "rows", "ours, events/s", "Debezium's", "ratio"), rows)
    return text + bars(
        "Times Debezium's", [(_peer(result), result.mid("ratio")) for result in rated], whole=max(most, 1.0)
    )


def named(result: Result) -> str:
    """What was measured, in a few words."""
    what = result.what
    words = [str(what["bench"]), str(what.get("table", "")), f"into {what['sink']}"]
    words += ["with schemas"] if what.get("schemas") else []
    if (at_once := what.get("at_once")) is not None:
        words.append(_TRANSACTIONS.get(at_once, f"{at_once} rows a transaction"))
    return " ".join(words)


def _peer(result: Result) -> str:
    what = result.what
    chunk = f", chunk {what['chunk']:,}" if "chunk" in what else ""
    return f"{what['case']} {what['table']}, {what['peer']}{chunk}"


def _cells(result: Result, *names: str) -> list[str]:
    return [spread_text(result.measured[name], result.runs) for name in names]


def spread_text(spread: Spread, runs: int) -> str:
    """The median, and the range if there was more than one run."""
    text = figure(spread.mid)
    return f"{text} ({figure(spread.low)} to {figure(spread.high)})" if runs > 1 else text


def figure(value: float | None) -> str:
    """A number to as many digits as say something; a dash for none."""
    if value is None:
        return "-"
    if abs(value) >= 1000 or float(value).is_integer():
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def table(heads: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A table of Markdown."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def bars(title: str, values: Sequence[tuple[str, float]], whole: float = 1.0) -> str:
    """A bar of text for each value; `whole` has the full length, more is cut."""
    width = max(len(name) for name, _ in values)
    drawn = [
        f"{name:<{width}} {'█' * min(_BAR, round(value / whole * _BAR)):<{_BAR}} {figure(value)}\n"
        for name, value in values
    ]
    return f"\n```\n{title}\n{''.join(drawn)}```\n"
