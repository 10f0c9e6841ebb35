"""The sink `jdbc` by itself: its turns, its tables and their columns."""

from __future__ import annotations

import itertools
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from adapters.jdbc.settings import JdbcSettings
from adapters.jdbc.sink import Holder, JdbcSink
from engine.config.sinks.postgres_target import PostgresTarget
from engine.config.sinks.settings import SchemaEvolution, TopicRecreated
from engine.errors import LeaseLost, SinkError, SinkRefused, TopicRemade, TopicsRefused
from engine.events.record.schema import INT64, STRING, struct
from tests.turns import Turns
from tests.typed_batches import MISSING, PLACEHOLDERS, ROW, TOPIC, change, typed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import pyarrow as pa

    from tests.servers.postgres import Database

pytestmark = pytest.mark.integration


@pytest.fixture
def opened(database: Database, tmp_path: Path) -> Iterator[Callable[..., Turns]]:
    """Opens sinks, each as the job's next process; all are closed."""
    sinks: list[JdbcSink] = []

    def open_sink(
        epoch: int | None = None, checkpoint: str = "c", table_format: str = "${topic}", **more: Any
    ) -> Turns:
        target = PostgresTarget(more.pop("parameters", parameters_of(database)), table_format)
        number = len(sinks)
        holder = Holder("job", f"process {number}", checkpoint, number if epoch is None else epoch)
        staging = tmp_path / f"staging {number}"
        sinks.append(JdbcSink(JdbcSettings(target, **more), staging, holder, PLACEHOLDERS))
        return Turns(sinks[-1])

    yield open_sink
    for sink in sinks:
        sink.close()


def parameters_of(database: Database) -> dict[str, str]:
    given = conninfo_to_dict(database.server.dsn(database.name))
    return {name: str(value) for name, value in given.items()}


def rows(database: Database, table: str = "tm_public_t") -> list[Any]:
    with database.connect() as connection:
        return connection.execute(f"SELECT * FROM {table} ORDER BY 1".encode()).fetchall()


def send(sink: Turns, turn: int, *batches: pa.RecordBatch) -> None:
    sink.writer(turn).write(0, batches)
    sink.commit(turn)


FIRST = typed(*(change("c", number) for number in range(1, 6)))
SECOND = typed(
    *(change("u", 1, "b", MISSING), change("d", 2), change("d", 3), change("c", 30, "moved", MISSING)),
    change("c", 6),
    headers=[None, None, "new", "old", None],
)
THEN = [(1, "b", "t"), (4, "n", "t"), (5, "n", "t"), (6, "n", "t"), (30, "moved", "t")]


class CrashError(BaseException):
    """The process dies here."""


def test_a_turn_is_there_once_whichever_statement_the_process_dies_before(
    database: Database, opened: Callable[..., Turns], monkeypatch: pytest.MonkeyPatch
):
    send(opened(), 1, FIRST)
    before = rows(database)
    for last in itertools.count():
        left = iter(range(last))
        sink = opened()
        with monkeypatch.context() as patch, suppress(CrashError):
            for kind, name in ((psycopg.Connection, "execute"), (psycopg.Cursor, "copy")):
                patch.setattr(kind, name, _dying(getattr(kind, name), left))
            sink.resolve_commit(2)
            send(sink, 2, SECOND)
            break
        assert rows(database) == before
        assert not opened().resolve_commit(2)

    assert last > 12
    assert rows(database) == THEN
    assert opened().resolve_commit(2)


def _dying(behind: Any, left: Iterator[int]) -> Any:
    def counted(*given: Any, **named: Any) -> Any:
        if next(left, None) is None:
            raise CrashError
        return behind(*given, **named)

    return counted


def test_a_commit_whose_outcome_is_unknown_is_found(
    database: Database, opened: Callable[..., Turns], monkeypatch: pytest.MonkeyPatch
):
    sink = opened()
    send(sink, 1, FIRST)
    sink.writer(2).write(0, [SECOND])
    behind = psycopg.Transaction._exit_gen

    def failing(self: Any, *given: Any) -> Any:
        yield from behind(self, *given)
        raise psycopg.OperationalError("server closed the connection unexpectedly")

    with monkeypatch.context() as patch:
        patch.setattr(psycopg.Transaction, "_exit_gen", failing)
        with pytest.raises(SinkError, match="unexpectedly"):
            sink.commit(2)

    assert sink.resolve_commit(2)
    assert rows(database) == THEN
    with pytest.raises(SinkRefused, match="turn 2 is committed"):
        sink.writer(2)


def test_what_an_earlier_process_has_begun_can_t_be_committed(
    database: Database, opened: Callable[..., Turns]
):
    old = opened()
    send(old, 1, FIRST)
    old.writer(2).write(0, [SECOND])
    new = opened()

    assert not new.resolve_commit(2)
    with pytest.raises(SinkError):  # its session was ended
        old.commit(2)
    with pytest.raises(LeaseLost):
        old.commit(2)
    send(new, 2, SECOND)
    assert rows(database) == THEN


def test_a_process_that_was_overtaken_takes_nothing_back(opened: Callable[..., Turns]):
    late = opened(epoch=5)
    send(opened(epoch=6), 1, FIRST)

    with pytest.raises(LeaseLost):
        late.writer(2)


def test_another_checkpoint_s_epochs_are_its_own(opened: Callable[..., Turns]):
    send(opened(epoch=6), 1, FIRST)

    assert opened(epoch=1, checkpoint="new").newest_turn() == 1
    send(opened(epoch=1, checkpoint="new"), 2, SECOND)


def test_a_target_that_lacks_turns_is_refused(database: Database, opened: Callable[..., Turns]):
    sink = opened()
    for turn in (1, 2, 3):
        send(sink, turn, FIRST)
    with database.connect() as connection:
        connection.execute("UPDATE tidemark_turns SET turn = 2")
    sink = opened()
    sink.writer(4).write(0, [SECOND])

    with pytest.raises(SinkRefused, match="newest turn is 2, the checkpoint's 3"):
        sink.commit(4)


def test_a_frozen_transaction_of_an_earlier_process_is_ended(
    database: Database, opened: Callable[..., Turns]
):
    sink = opened()
    send(sink, 1, FIRST)
    with sink._target.connection() as connection, connection.transaction(force_rollback=True):
        connection.execute("SELECT FROM tidemark_turns FOR UPDATE")
        send(opened(), 2, SECOND)
        assert rows(database) == THEN
        connection.close()


def test_turns_of_two_jobs_don_t_meet(database: Database, opened: Callable[..., Turns]):
    send(opened(), 1, FIRST)
    sink = opened()
    sink._sink._turns._us = replace(sink._sink._turns._us, job="other")

    assert sink.newest_turn() is None
    assert sink.identity() != opened().identity()
    assert opened().newest_turn() == 1
    assert rows(database, "tidemark_turns")[0][0] == "job"


def test_a_target_that_is_altered_meanwhile_is_looked_at_anew(
    database: Database, opened: Callable[..., Turns]
):
    sink = opened()
    send(sink, 1, FIRST)
    with database.connect() as connection:
        connection.execute("ALTER TABLE tm_public_t DROP COLUMN text")
    sink.writer(2).write(0, [typed(change("c", 6))])
    with pytest.raises(SinkError) as caught:
        sink.commit(2)
    assert not isinstance(caught.value, SinkRefused)

    assert not sink.resolve_commit(2)
    send(sink, 2, typed(change("c", 6)))
    assert rows(database)[-1] == (6, "n", "t")


@pytest.mark.parametrize("evolution", SchemaEvolution)
def test_missing_tables_and_columns_are_created_or_refused(
    database: Database, opened: Callable[..., Turns], evolution: SchemaEvolution
):
    sink = opened(table_format="${source.schema}_copy.${source.table}", evolution=evolution)
    sink.writer(1).write(0, [FIRST])
    if evolution is SchemaEvolution.NONE:
        with pytest.raises(TopicsRefused, match="the table is missing"):
            sink.commit(1)
        return
    sink.commit(1)
    assert len(rows(database, "public_copy.t")) == 5


def test_a_column_gets_wider_if_its_events_do(database: Database, opened: Callable[..., Turns]):
    wider = struct("Value", ("id", INT64), *ROW.fields[1:], optional=True)
    key = struct("Key", ("id", INT64))
    sink = opened()
    send(sink, 1, FIRST)
    large = ("c", {"id": 1 << 40}, {"id": 1 << 40, "note": "n", "text": "t"})
    send(sink, 2, typed(large, row=wider, key=key))

    assert rows(database)[-1] == (1 << 40, "n", "t")


def test_a_refusal_names_the_column_and_no_value(database: Database, opened: Callable[..., Turns]):
    with database.connect() as connection:
        connection.execute("CREATE TABLE tm_public_t (id int PRIMARY KEY, note int, text text)")
    sink = opened()
    sink.writer(1).write(0, [typed(change("c", 1, "secret"))])

    with pytest.raises(TopicsRefused) as caught:
        sink.commit(1)
    assert caught.value.reasons.keys() == {TOPIC}
    assert "'note'" in str(caught.value)
    assert "secret" not in str(caught.value)


def test_events_that_are_withheld_come_back_as_they_were(database: Database, opened: Callable[..., Turns]):
    sink = opened()
    send(sink, 1, FIRST)
    writer = sink.writer(2)
    other = typed(change("c", 1), topic="tm.public.other")
    parts = [writer.write(0, [SECOND, other])]
    kept = list(sink.withhold(parts, TOPIC))
    sink.commit(2)
    assert len(rows(database)) == 5
    assert rows(database, "tm_public_other") == [(1, "n", "t")]

    send(sink, 3, *kept)
    assert rows(database) == THEN


@pytest.mark.parametrize("recreated", TopicRecreated)
def test_a_table_that_was_dropped_is_told_of(
    database: Database, opened: Callable[..., Turns], recreated: TopicRecreated
):
    sink = opened()
    send(sink, 1, FIRST)
    saved = sink.memory()
    with database.connect() as connection:
        connection.execute("DROP TABLE tm_public_t")
    sink = opened(recreated=recreated)
    sink.resume(saved)
    sink.writer(2).write(0, [SECOND])

    if recreated is TopicRecreated.STOP:
        with pytest.raises(SinkRefused, match="was dropped"):
            sink.commit(2)
        return
    with pytest.raises(TopicsRefused) as caught:
        sink.commit(2)
    reason = caught.value.reasons[TOPIC]
    assert isinstance(reason, TopicRemade)
    assert reason.snapshot is (recreated is TopicRecreated.SNAPSHOT)
    assert not sink.resolve_commit(2)
    sink.resume(saved)
    send(sink, 2, SECOND)
    assert rows(database) == [(1, "b", None), (6, "n", "t"), (30, "moved", None)]


def test_a_table_whose_creation_was_rolled_back_is_none_that_was_dropped(
    database: Database, opened: Callable[..., Turns]
):
    sink = opened()
    parts = [sink.writer(1).write(0, [FIRST, typed(("c", None, None), key=None, topic="tm.public.z")])]
    with pytest.raises(TopicsRefused, match="no key"):
        sink.commit(1, parts)
    parts = [sink.writer(1).write(0, [FIRST, typed(("c", None, None), key=None, topic="tm.public.z")])]
    list(sink.withhold(parts, "tm.public.z"))
    sink.commit(1, parts)

    assert len(rows(database)) == 5


@pytest.mark.parametrize("evolution", SchemaEvolution)
def test_the_rights_that_security_md_names_are_enough(
    database: Database, opened: Callable[..., Turns], evolution: SchemaEvolution
):
    with database.connect() as connection:
        connection.execute("CREATE ROLE writer LOGIN PASSWORD 'p'")
        connection.execute(f"GRANT CONNECT, TEMPORARY ON DATABASE {database.name} TO writer".encode())
        connection.execute("GRANT USAGE ON SCHEMA public TO writer")
        if evolution is SchemaEvolution.NONE:
            send(opened(), 1, FIRST)
            connection.execute("GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON tm_public_t TO writer")
            connection.execute("GRANT SELECT, INSERT, UPDATE ON tidemark_turns TO writer")
        else:
            connection.execute("GRANT CREATE ON SCHEMA public TO writer")
        login = {**parameters_of(database), "user": "writer", "password": "p"}
        try:
            sink = opened(parameters=login, evolution=evolution)
            turn = (sink.newest_turn() or 0) + 1
            send(sink, turn, typed(change("t", 0)), FIRST)
            send(sink, turn + 1, SECOND)
            assert rows(database) == THEN
            sink.close()
        finally:
            connection.execute("DROP OWNED BY writer CASCADE")
            connection.execute("DROP ROLE writer")


def test_a_table_needs_an_index_on_its_key(database: Database, opened: Callable[..., Turns]):
    with database.connect() as connection:
        connection.execute("CREATE TABLE tm_public_t (id int, note text, text text)")
    sink = opened()
    sink.writer(1).write(0, [FIRST])

    with pytest.raises(TopicsRefused, match="ON CONFLICT"):
        sink.commit(1)


def test_a_table_of_keys_alone_is_written(database: Database, opened: Callable[..., Turns]):
    row = struct("Value", ("id", STRING), optional=True)
    key = struct("Key", ("id", STRING))
    sink = opened()
    send(sink, 1, typed(*(("c", {"id": text}, {"id": text}) for text in ("a", "b")), row=row, key=key))
    send(sink, 2, typed(*(("r", {"id": text}, {"id": text}) for text in ("b", "c")), row=row, key=key))

    assert rows(database) == [("a",), ("b",), ("c",)]
