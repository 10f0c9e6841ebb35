"""Chunks cut by a real server: every row in exactly one run, whatever its key is made of."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from adapters.postgres.conditions.selection import Selections
from adapters.postgres.server.publication import Publication
from adapters.postgres.server.questions.questions import Questions
from adapters.postgres.server.sql import quote_ident
from adapters.postgres.snapshot.eligibility import Eligibility
from adapters.postgres.snapshot.tables import PostgresTables
from adapters.system import system_clock
from engine.config.settings import Conditions
from engine.model import CollectionId, ExecuteSnapshot, Target
from engine.snapshot.changes.commands import execute
from engine.snapshot.extent import Advance, Extent
from engine.snapshot.plan import Budget, plan_window
from engine.snapshot.queue import Snapshot
from tests.keys import ICU, KINDS, PREPARED, Kind

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from psycopg import Connection

    from engine.model import Run
    from tests.servers.postgres import PostgresServer

pytestmark = pytest.mark.integration

T = CollectionId(("odd schema", 'odd "table"'))
NAMES = ("k", "Key 1", 'quo"te', "select", "question?", "brace{", "é", "'")


@dataclass(frozen=True)
class Rows:
    kinds: tuple[Kind, ...]
    rows: tuple[tuple[str | None, ...], ...]
    primary: bool

    @property
    def names(self) -> Sequence[str]:
        return NAMES[: len(self.kinds)]

    def make(self, connection: Connection[tuple[Any, ...]]) -> None:
        """A table with these rows and an index over its key, numbered by `n`."""
        quoted = [quote_ident(name) for name in self.names]
        columns = ", ".join(f"{name} {kind.type}" for name, kind in zip(quoted, self.kinds, strict=True))
        names = ", ".join(quoted)
        connection.execute(f"DROP TABLE IF EXISTS {TABLE}".encode())
        connection.execute(f"CREATE TABLE {TABLE} ({columns}, n serial)".encode())
        values = ", ".join(["%s"] * len(self.kinds))
        skip = " ON CONFLICT DO NOTHING" if self.primary else ""
        key = f"ALTER TABLE {TABLE} ADD PRIMARY KEY ({names})"
        connection.execute((key if self.primary else f"CREATE INDEX ON {TABLE} ({names})").encode())
        with connection.cursor() as cursor:
            cursor.executemany(f"INSERT INTO {TABLE} ({names}) VALUES ({values}){skip}".encode(), self.rows)

    @property
    def target(self) -> Target:
        return Target(T, surrogate_key=None if self.primary else ",".join(self.names))


TABLE = ".".join(quote_ident(part) for part in T.parts)


@st.composite
def tables(draw: st.DrawFn, version: int, *, rows: int = 25) -> Rows:
    known = st.sampled_from([kind for kind in KINDS if kind.on(version)])
    kinds = tuple(draw(st.lists(known, min_size=1, max_size=3) | st.lists(known, min_size=8, max_size=8)))
    primary = draw(st.booleans())
    columns = [
        st.sampled_from(kind.values) if primary else st.none() | st.sampled_from(kind.values)
        for kind in kinds
    ]
    return Rows(kinds, tuple(draw(st.lists(st.tuples(*columns), min_size=1, max_size=rows))), primary)


@pytest.fixture(scope="module", params=["postgres15", "postgres18"])
def server(request: pytest.FixtureRequest) -> Iterator[PostgresServer]:
    made: PostgresServer = request.getfixturevalue(request.param)
    made.create_database("keysets")
    yield made
    made.drop_database("keysets")


@pytest.fixture(scope="module")
def connection(server: PostgresServer) -> Iterator[Connection[tuple[Any, ...]]]:
    with server.connect("keysets") as opened:
        # A prepared INSERT would go on with the parameter types of the table before.
        opened.prepare_threshold = None
        opened.execute(PREPARED)
        if any(kind.icu and kind.on(server.version) for kind in KINDS):
            opened.execute(ICU)
        opened.execute(f"CREATE SCHEMA {quote_ident(T.parts[0])}".encode())
        opened.execute("CREATE PUBLICATION p FOR ALL TABLES")
        yield opened


@pytest.fixture(scope="module")
def extents(connection) -> PostgresTables:
    questions, publication = Questions(connection), Publication("p", lambda _s, _t: True)
    readable = Eligibility(questions, publication, Selections(questions, Conditions.EXPRESSIONS))
    return PostgresTables(questions, publication, readable, system_clock(), whole_bytes=0)


def runs_of(extents: PostgresTables, target: Target, budget: Budget) -> list[Run]:
    """The runs of all windows, as a job plans them."""
    (extent,) = extents.measure([target])
    assert isinstance(extent, Extent), extent
    snapshot = execute(Snapshot(), ExecuteSnapshot("s", (target,))).with_extent(1, extent, 0)
    runs: list[Run] = []
    while not snapshot.done:
        assert len(runs) < 200
        planned = plan_window(snapshot, budget, extents.boundaries)
        runs += planned
        snapshot = snapshot.advanced(Advance(1, planned, 1, 1))
    return runs


relaxed = settings(
    max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@relaxed
@given(data=st.data(), rows=st.integers(1, 6), tasks=st.integers(1, 3))
def test_every_row_is_in_exactly_one_run(connection, server, extents, data, rows, tasks):
    table = data.draw(tables(server.version))
    table.make(connection)

    assert_each_row_in_one_run(connection, extents, table, Budget(rows, 1 << 40, tasks, 1))


@pytest.mark.parametrize("primary", [True, False])
def test_so_it_is_for_each_kind_alone_and_before_another(connection, server, extents, primary):
    for kind in (kind for kind in KINDS if kind.on(server.version)):
        kinds, values = ((kind,), kind.values) if primary else ((kind, KINDS[0]), (*kind.values, None, None))
        table = Rows(kinds, tuple((value, "1")[: len(kinds)] for value in values), primary)
        table.make(connection)

        assert_each_row_in_one_run(connection, extents, table, Budget(6, 1 << 40, 3, 1))


def assert_each_row_in_one_run(
    connection: Connection[tuple[Any, ...]], extents: PostgresTables, table: Rows, budget: Budget
) -> None:
    runs = runs_of(extents, table.target, budget)
    read = extents.readings([table.target])[table.target]
    found = [
        number
        for run in runs
        for (number,) in connection.execute(
            f"SELECT n FROM {read.relation} WHERE {read.keyset.between(run.after, run.upto)}".encode()
        )
    ]
    every = [number for (number,) in connection.execute(f"SELECT n FROM {TABLE}".encode())]

    assert sorted(found) == sorted(every)
    assert runs[0].after is None
    assert all(run.upto == following.after for run, following in pairwise(runs))


@relaxed
@given(data=st.data())
def test_naming_keys_finds_all_of_their_rows_and_no_others(connection, server, extents, data):
    table = data.draw(tables(server.version))
    table.make(connection)
    read = extents.readings([table.target])[table.target]
    keyed = connection.execute(f"SELECT n, {read.keyset.texts} FROM {TABLE}".encode()).fetchall()
    chosen = data.draw(st.lists(st.sampled_from(keyed), min_size=1, unique=True))
    keys = [key for _number, *key in chosen]
    found = connection.execute(f"SELECT n FROM {TABLE} WHERE {read.keyset.among(keys)} ORDER BY n".encode())
    same = " AND ".join(f"(w.{name} IS NOT DISTINCT FROM t.{name})" for name in map(quote_ident, table.names))
    # Else a type from there would be compared as what it casts to.
    connection.execute("SET search_path = public, apart")
    expected = connection.execute(
        f"SELECT n FROM {TABLE} t WHERE EXISTS"
        f" (SELECT FROM {TABLE} w WHERE w.n = ANY (%s) AND {same}) ORDER BY n".encode(),
        [[number for number, *_key in chosen]],
    )
    connection.execute("RESET search_path")

    assert found.fetchall() == expected.fetchall()


@pytest.mark.parametrize(
    ("columns", "primary"),
    [
        ("k int, l int NOT NULL", False),
        ("k text, l int", False),
        ("k apart.citext, l int", True),
    ],
)
def test_the_index_serves_a_range_of_nullable_columns_and_of_types_from_elsewhere(
    connection, extents, columns, primary
):
    """Rows far from the range are not looked at: its cost does not grow with the table."""
    connection.execute(f"DROP TABLE IF EXISTS {TABLE}".encode())
    connection.execute(f"CREATE TABLE {TABLE} ({columns})".encode())
    connection.execute(
        f"INSERT INTO {TABLE} SELECT CASE WHEN {primary} OR g < 20000 THEN 10000 + g END, g"
        " FROM generate_series(1, 30000) g".encode()
    )
    key = "ALTER TABLE {} ADD PRIMARY KEY (k, l)" if primary else "CREATE INDEX ON {} (k, l)"
    connection.execute(key.format(TABLE).encode())
    connection.execute(f"ANALYZE {TABLE}".encode())
    target = Target(T, surrogate_key=None if primary else "k,l")
    read = extents.readings([target])[target]
    after, upto = ("20000", "10000"), ("20010", "10010")

    assert (
        looked_at(connection, f"SELECT FROM {read.relation} WHERE {read.keyset.between(after, upto)}") <= 12
    )
    ends = [upto] if primary else [upto, (None, "30000"), (None, None)]
    for end in ends:
        for where in read.keyset.stretches(after, end):
            step = f"SELECT FROM {read.relation} WHERE {where} ORDER BY {read.keyset.order} OFFSET 9 LIMIT 1"

            assert looked_at(connection, step) <= 12


def looked_at(connection: Connection[tuple[Any, ...]], query: str) -> int:
    """The rows that a query reads, those it throws away included."""
    (plan,) = connection.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {query}".encode()).fetchone() or ([],)
    assert isinstance(plan, list)
    node = plan[0]["Plan"]
    while "Plans" in node:
        (node,) = node["Plans"]
    return int(node["Actual Rows"] + node.get("Rows Removed by Filter", 0))


def test_a_composite_value_with_fields_of_null_is_no_null(connection, extents):
    pair = next(kind for kind in KINDS if kind.type == "pair")
    table = Rows((pair,), ((None,), *((value,) for value in pair.values)), primary=False)
    table.make(connection)
    read = extents.readings([table.target])[table.target]
    (found,) = zip(*connection.execute(f"SELECT {read.keyset.texts} FROM {TABLE}".encode()), strict=True)

    assert set(found) == {None, *pair.values}
