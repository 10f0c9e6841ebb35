"""Verifying the files of a real job on a real server: each fault put into them is found, and nothing else."""

from __future__ import annotations

import json
import threading
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from adapters.cli.app import app
from tests.against import last_answer
from tests.driven import SIGNAL_TABLE, driven, properties
from tests.meanwhile import meanwhile

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

    from signals.answers import Answer
    from tests.driven import Driven
    from tests.servers.postgres import Database

pytestmark = [pytest.mark.integration, pytest.mark.slow]

ROWS = 3000
FILL = (
    "INSERT INTO orders SELECT i, nullif(E'nöte\t\"' || i % 3, E'nöte\t\"0'), i / 7.0, now(), i % 2 = 0,"
    " (SELECT string_agg(md5((i * j)::text), '') FROM generate_series(1, CASE WHEN i % 500 = 0 THEN 300"
    f" ELSE 1 END) j) FROM generate_series(1, {ROWS}) i"
)
COLUMNS = "id int PRIMARY KEY, note text, price numeric(10, 2), at timestamptz, done bool, large text"
TABLES = (
    f"CREATE TABLE orders ({COLUMNS})",
    "ALTER TABLE orders ALTER large SET STORAGE EXTERNAL",
    FILL,
)
SMALL = {"incremental__snapshot__chunk__size": "100", "tidemark__window__max__chunks": "10"}


@pytest.fixture
def orders(database: Database) -> Database:
    database.execute(SIGNAL_TABLE, *TABLES)
    return database


def ask(database: Database, type_: str, id_: str) -> None:
    with database.connect() as connection:
        data = json.dumps({"data-collections": ["public.orders"], "type": type_})
        connection.execute("INSERT INTO signals VALUES (%s, 'execute-snapshot', %s)", [id_, data])


def verified(job: Driven, database: Database, id_: str) -> Answer:
    """The answer to a verification."""
    return answered(job, database, "verify", id_)


def answered(job: Driven, database: Database, type_: str, id_: str) -> Answer:
    """The last answer to a signal of this type, which is sent now."""
    ask(database, type_, id_)
    return last_answer(job, id_)


def falsify(
    directory: Path, change: Callable[[dict[str, Any]], dict[str, Any] | None], table: str = "orders"
) -> None:
    """Change events of the table behind the job's back, or remove them."""
    for part in sorted((directory / "events").glob("turn-*/part-*.jsonl")):
        lines = []
        for line in part.read_text().splitlines():
            event = json.loads(line)
            if event["topic"].endswith(f".{table}") and event["value"]:
                event = change(event)
            if event == json.loads(line):
                lines.append(line)
            elif event is not None:
                lines.append(json.dumps(event, separators=(",", ":"), ensure_ascii=False))
        part.write_text("".join(f"{line}\n" for line in lines))


def fault(event: dict[str, Any]) -> dict[str, Any] | None:
    """Some rows are missing, others are different."""
    key = event["key"]["id"]
    if key % 100 == 1:
        return None
    if key % 100 == 2:
        event["value"]["after"]["note"] = "wrong"
    return event


def writing(database: Database, step: Callable[[Any, int], None]) -> AbstractContextManager[None]:
    """Take steps with a connection of their own meanwhile, which are numbered from 1."""

    def write(stop: threading.Event) -> None:
        with database.connect() as connection:
            for number in count(1):
                step(connection, number)
                if stop.wait(0.002):
                    return

    return meanwhile(write)


def test_faults_are_found_and_nothing_else(orders, tmp_path, spark):
    with driven(orders, tmp_path, spark, **SMALL) as job:
        ask(orders, "incremental", "copy")
        job.until_answered("finished")

        accepted = verified(job, orders, "right")

        def elsewhere(event: dict[str, Any]) -> dict[str, Any] | None:
            key = event["key"]["id"]
            if key % 1000 == 3:
                event["key"]["id"] = event["value"]["after"]["id"] = key + 100_000
            return event

        falsify(tmp_path, fault)
        falsify(tmp_path, elsewhere)
        rejected = verified(job, orders, "wrong")

        assert len(job.events("orders")) == ROWS - ROWS // 100
    assert accepted.outcome == "finished", accepted.text
    assert accepted.facts["equal"] == ROWS
    assert rejected.outcome == "failed"
    counts = {name: rejected.facts[name] for name in ("equal", "missing", "different", "extra", "changed")}
    missing, different, extra = ROWS // 100 + 3, ROWS // 100, 3
    expected = {"missing": missing, "different": different, "extra": extra, "changed": 0}
    assert counts == {"equal": ROWS - missing - different, **expected}
    assert sorted(rejected.facts["first"]["extra"]) == [f'{{"id":{key}}}' for key in (100003, 101003, 102003)]
    config = tmp_path / "job.json"
    config.write_text(json.dumps(properties(orders, tmp_path)))
    printed = CliRunner().invoke(app, ["certificate", str(config), "wrong"])
    assert json.loads(printed.stdout)["missing"] == missing


def test_what_is_written_meanwhile_is_no_difference(orders, tmp_path, spark):
    """Rows change, come, go and move, and large values stay as they are, while they are compared."""
    may_heal = threading.Event()

    def step(connection: Any, number: int) -> None:
        key = number * 37 % ROWS + 1
        if key != 2999 or may_heal.is_set():
            connection.execute("UPDATE orders SET note = %s WHERE id = %s", [f"n{number}", key])
        if not number % 200:
            connection.execute("UPDATE orders SET price = 1 WHERE id = %s", [500 * (number % 7)])
        connection.execute("DELETE FROM orders WHERE id = %s", [number % 50 + 5000])
        connection.execute("INSERT INTO orders (id) VALUES (%s)", [number % 50 + 5000])
        connection.execute("UPDATE orders SET id = -id WHERE id IN (7, -7)")

    with driven(orders, tmp_path, spark, **SMALL) as job:
        ask(orders, "incremental", "copy")
        job.until_answered("finished")
        falsify(tmp_path, lambda event: None if event["key"]["id"] == 2999 else event)
        with writing(orders, step):
            answers = [verified(job, orders, "v0")]
            may_heal.set()
            answers += [verified(job, orders, f"v{number}") for number in (1, 2)]
    for answer in answers:
        found = {kind: answer.facts.get(kind) for kind in ("missing", "different", "extra")}
        assert found in (
            {"missing": 1, "different": 0, "extra": 0},
            {"missing": 0, "different": 0, "extra": 0},
        )
    assert answers[0].facts["missing"] == 1
    assert answers[0].facts["changed"] > 0


def test_a_change_of_columns_is_no_difference(orders, tmp_path, spark):
    with driven(orders, tmp_path, spark, **SMALL) as job:
        ask(orders, "incremental", "copy")
        job.until_answered("finished")
        with orders.connect() as connection:
            connection.execute("ALTER TABLE orders ADD COLUMN more int")
            connection.execute("ALTER TABLE orders DROP COLUMN done")
            connection.execute("UPDATE orders SET more = 5 WHERE id <= 10")
        job.until_drained(orders)

        answer = verified(job, orders, "altered")

    assert answer.outcome == "finished", answer.text
    assert answer.facts["equal"] == ROWS


def begun(job: Driven) -> int:
    """Wait until a verification has read some rows; returns how many."""
    read: list[int] = []

    def reads() -> bool:
        read[:] = [table.progress.rows for table in job.job.state.snapshot.tables if table.progress]
        return any(0 < count < ROWS for count in read)

    job.until(reads)
    return read[0]


def test_a_verification_goes_on_after_a_restart(orders, tmp_path, spark, caplog):
    caplog.set_level("INFO", "engine")
    with driven(orders, tmp_path, spark, **SMALL) as job:
        ask(orders, "incremental", "copy")
        job.until_answered("finished")
        ask(orders, "verify", "broken off")
        read = begun(job)
    falsify(tmp_path, fault)
    with orders.connect() as connection:
        connection.execute("DELETE FROM orders WHERE id IN (1, 1500)")
        connection.execute("INSERT INTO orders (id) VALUES (-1), (5000)")
        connection.execute("UPDATE orders SET note = 'newer' WHERE id IN (2, 2002)")
    with driven(orders, tmp_path, spark, **SMALL) as job:
        job.until_answered("failed")

    (answer,) = job.answered("failed")
    found = {kind: answer.facts[kind] for kind in ("missing", "different", "extra")}
    assert found == {"missing": 29, "different": 28, "extra": 0}, answer.text
    assert f"public.orders: {read} rows were read to be compared, and it goes on" in caplog.text


def test_rows_gone_by_a_truncate_that_is_not_sent_are_extra(orders, tmp_path, spark):
    with driven(orders, tmp_path, spark, **SMALL) as job:
        ask(orders, "incremental", "copy")
        job.until_answered("finished")
        ask(orders, "verify", "meanwhile")
        begun(job)
        orders.execute("TRUNCATE orders")
        job.until_answered("failed")

    (answer,) = job.answered("failed")
    assert answer.facts["extra"] == ROWS, answer.text


def test_a_verification_begins_anew_after_a_restart_without_its_files(orders, tmp_path, spark, caplog):
    with driven(orders, tmp_path, spark, **SMALL) as job:
        ask(orders, "incremental", "copy")
        job.until_answered("finished")
        ask(orders, "verify", "broken off")
        begun(job)
    (kept,) = (path for path in tmp_path.rglob("seen-*.arrow"))
    kept.write_bytes(kept.read_bytes()[:-8])
    falsify(tmp_path, lambda event: None if event["key"]["id"] == 1 else event)
    with driven(orders, tmp_path, spark, **SMALL) as job:
        job.until_answered("failed")

    assert job.answered("failed")[0].facts["missing"] == 1
    assert "public.orders is read from its beginning: what was read is lost" in caplog.text


def test_what_can_not_be_verified_is_refused(orders, tmp_path, spark):
    with driven(orders, tmp_path, spark, tidemark__sink="null") as job:
        answer = verified(job, orders, "nothing kept")

    assert (answer.outcome, "only the sinks files, kafka, jdbc, delta and iceberg" in answer.text) == (
        "rejected",
        True,
    )
