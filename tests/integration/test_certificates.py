"""Certificates of a real job on a real server, against what went out, computed as a stranger would."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from typer.testing import CliRunner
from xxhash import xxh3_128_intdigest

from adapters.cli.app import app
from tests.driven import SIGNAL_TABLE, driven, properties

if TYPE_CHECKING:
    from pathlib import Path

    from tests.servers.postgres import Database

pytestmark = [pytest.mark.integration, pytest.mark.slow]

ROWS = 3000
FILL = (
    "INSERT INTO orders SELECT i, nullif(E'note\\t\"' || i % 3, E'note\\t\"0'), i / 7.0, now(), i % 2 = 0"
    f" FROM generate_series(1, {ROWS}) i"
)
TABLES = (
    "CREATE TABLE orders (id int PRIMARY KEY, note text, price numeric(10, 2), at timestamptz, done bool)",
    FILL,
)


class _Value(msgspec.Struct):
    op: str
    after: msgspec.Raw = msgspec.Raw(b"null")


class _Line(msgspec.Struct):
    topic: str
    key: msgspec.Raw
    value: msgspec.Raw


@pytest.fixture
def orders(database: Database) -> Database:
    database.execute(SIGNAL_TABLE, *TABLES)
    return database


def execute(database: Database, id_: str) -> None:
    with database.connect() as connection:
        data = json.dumps({"data-collections": ["public.orders"]})
        connection.execute("INSERT INTO signals VALUES (%s, 'execute-snapshot', %s)", [id_, data])


def printed(database: Database, directory: Path, id_: str, **more: str) -> tuple[int, str]:
    """What `tidemark certificate` ends with, and prints."""
    config = directory / "job.json"
    config.write_text(json.dumps(properties(database, directory, **more)))
    result = CliRunner().invoke(app, ["certificate", str(config), id_])
    return result.exit_code, result.stdout


def turns_of(certificate: dict[str, Any]) -> range:
    """The turns that have sent its rows."""
    parts = [*certificate["ranges"], *filter(None, [certificate["single_keys"]])]
    turns = [window["turn"] for part in parts for window in part["windows"]]
    return range(min(turns), max(turns) + 1)


def sent_rows(directory: Path, turns: range | None = None) -> list[bytes]:
    """The canonical bytes of every READ event that the files sink has of these turns, in no order."""
    rows = []
    for part in (directory / "events").glob("turn-*/part-*.jsonl"):
        if turns is not None and int(part.parent.name.removeprefix("turn-")) not in turns:
            continue
        for text in part.read_bytes().splitlines():
            line = msgspec.json.decode(text.strip(), type=_Line)
            if not line.topic.endswith(".orders") or bytes(line.value) == b"null":
                continue
            value = msgspec.json.decode(line.value, type=_Value)
            if value.op == "r":
                rows.append(bytes(line.key) + b"\n" + bytes(value.after))
    return rows


def sum_by_hand(rows: list[bytes], certificate: dict[str, Any]) -> str:
    seed = int(certificate["hash"]["seed"], 16)
    return f"{sum(xxh3_128_intdigest(row, seed) for row in rows) % 2**128:032x}"


def test_a_stranger_finds_the_certificates_sum_in_the_events(orders, tmp_path, spark):
    """Rows change while they are read; a job that starts anew goes on with the same certificate."""
    small = {"incremental__snapshot__chunk__size": "100", "tidemark__window__max__chunks": "10"}
    with driven(orders, tmp_path, spark, **small) as job:
        execute(orders, "ours")
        job.until(lambda: job.job.window is not None)
        with orders.connect() as connection:
            connection.execute("UPDATE orders SET note = 'newer' WHERE id % 10 = 1")
            connection.execute("DELETE FROM orders WHERE id % 10 = 2")
        job.until(lambda: len(sent_rows(tmp_path)) > 0)
    assert len(sent_rows(tmp_path)) < ROWS
    with driven(orders, tmp_path, spark, **small) as job:
        job.until_answered("finished")
        execute(orders, "again")
        job.until_answered("finished", 2)

    code, text = printed(orders, tmp_path, "ours")

    certificate = json.loads(text)
    first, second = (json.loads(printed(orders, tmp_path, id_)[1]) for id_ in ("ours", "again"))
    rows = sent_rows(tmp_path)
    assert (code, first) == (0, certificate)
    assert len(rows) == first["rows"]["emitted"] + second["rows"]["emitted"]
    for found in (first, second):
        assert found["sum"] == sum_by_hand(sent_rows(tmp_path, turns_of(found)), found)
    assert second["previous"] == hashlib.sha256(text.strip().encode()).hexdigest()
    assert all(
        certificate["rows"]["read"] == certificate["rows"]["superseded"] + certificate["rows"]["emitted"]
        for certificate in (first, second)
    )
    assert all(window["visible"].count(":") == 2 for part in first["ranges"] for window in part["windows"])
    assert first["source"]


def test_off_leaves_certificates_out(orders, tmp_path, spark):
    with driven(orders, tmp_path, spark, tidemark__certificate="off") as job:
        execute(orders, "ours")
        job.until_answered("finished")

    code, _text = printed(orders, tmp_path, "ours", tidemark__certificate="off")

    assert code != 0
    assert not (tmp_path / "state" / "certificates").exists()
