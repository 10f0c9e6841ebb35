"""Chunks cut by a real server: every row in exactly one run, whatever its key is made of."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from adapters.postgres.catalog import Catalog
from adapters.postgres.extents import CapturedTables, Extents
from engine.model import CollectionId, ExecuteSnapshot, Target
from engine.plan import Budget, plan_window
from engine.snapshot import Advance, Extent, Snapshot

if TYPE_CHECKING:
    from collections.abc import Iterator

    from psycopg import Connection

    from engine.model import Run
    from tests.servers.postgres import Database

pytestmark = pytest.mark.integration

T = CollectionId(("public", "t"))
TEXTS = ["", " ", "a", "A", "ab", "aB", "b", "é", "z", "'", "\\", '"', "\x1f", "a\nb", "10", "9"]


@dataclass(frozen=True)
class Kind:
    """A key column's type, and values of it that order differently as text, or equal with other text."""

    type: str
    values: tuple[str, ...]


KINDS = (
    Kind("int4", ("-2147483648", "-1", "0", "9", "10", "2147483647")),
    Kind("int8", ("-9223372036854775808", "-5", "0", "7", "30", "9223372036854775807")),
    Kind("numeric", ("-Infinity", "-0.5", "1", "1.0", "1.00", "9", "10", "Infinity", "NaN")),
    Kind("float4", ("-Infinity", "-0", "0", "0.1", "1e20", "NaN")),
    Kind("text", tuple(TEXTS)),
    Kind('text COLLATE "C"', tuple(TEXTS)),
    Kind("text COLLATE pg_unicode_fast", tuple(TEXTS)),
    Kind("char(5)", ("", "a", "A", "ab", "b  ", "é")),
    Kind(
        "uuid",
        (
            "00000000-0000-0000-0000-000000000001",
            "0f000000-0000-0000-0000-000000000000",
            "ff000000-0000-0000-0000-000000000000",
        ),
    ),
    Kind(
        "timestamptz",
        (
            "-infinity",
            "1900-01-01 00:00+00",
            "2020-02-29 12:00+03",
            "2020-02-29 09:00:00.000001Z",
            "infinity",
        ),
    ),
    Kind("date", ("4713-01-01 BC", "0001-12-31 BC", "2020-02-29", "infinity")),
    Kind("bytea", ("\\x", "\\x00", "\\xff", "\\x0a")),
    Kind("bool", ("true", "false")),
    Kind("interval", ("1 mon", "30 days", "-1 day", "25:00")),
    Kind("inet", ("10.0.0.1", "10.0.0.0/8", "::1", "9.9.9.9")),
    Kind('"char"', ("a", "Z")),
    Kind("bit(3)", ("000", "101", "111")),
)


@dataclass(frozen=True)
class Rows:
    kinds: tuple[Kind, ...]
    rows: tuple[tuple[str | None, ...], ...]
    primary: bool

    def make(self, connection: Connection[tuple[object, ...]]) -> None:
        """A table `t` with these rows and an index over its key, numbered by `n`."""
        columns = ", ".join(f"k{at} {kind.type}" for at, kind in enumerate(self.kinds))
        names = ", ".join(f"k{at}" for at in range(len(self.kinds)))
        connection.execute("DROP TABLE IF EXISTS t")
        connection.execute(f"CREATE TABLE t ({columns}, n serial)".encode())
        values = ", ".join(["%s"] * len(self.kinds))
        skip = " ON CONFLICT DO NOTHING" if self.primary else ""
        index = f"ALTER TABLE t ADD PRIMARY KEY ({names})" if self.primary else f"CREATE INDEX ON t ({names})"
        connection.execute(index.encode())
        with connection.cursor() as cursor:
            cursor.executemany(f"INSERT INTO t ({names}) VALUES ({values}){skip}".encode(), self.rows)

    @property
    def target(self) -> Target:
        names = ",".join(f"k{at}" for at in range(len(self.kinds)))
        return Target(T, surrogate_key=None if self.primary else names)


@st.composite
def tables(draw: st.DrawFn) -> Rows:
    kinds = tuple(draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=3)))
    primary = draw(st.booleans())
    columns = [
        st.sampled_from(kind.values) if primary else st.none() | st.sampled_from(kind.values)
        for kind in kinds
    ]
    rows = draw(st.lists(st.tuples(*columns), min_size=1, max_size=25))
    return Rows(kinds, tuple(rows), primary)


@pytest.fixture(scope="module")
def connection(postgres18) -> Iterator[Connection[tuple[object, ...]]]:
    database: Database = postgres18.create_database("keysets")
    with database.connect() as opened:
        # A prepared INSERT would go on with the parameter types of the table before.
        opened.prepare_threshold = None
        yield opened
    postgres18.drop_database("keysets")


@pytest.fixture(scope="module")
def extents(postgres18, connection) -> Extents:
    catalog = Catalog(lambda: postgres18.connect("keysets"))
    return Extents(connection, catalog, CapturedTables("p", lambda _s, _t: True), whole_bytes=0)


def runs_of(extents: Extents, target: Target, budget: Budget) -> list[Run]:
    """The runs of all windows, as a job plans them."""
    (extent,) = extents.measure([target])
    assert isinstance(extent, Extent)
    snapshot = Snapshot().execute(ExecuteSnapshot("s", (target,))).began(1, extent, 0)
    runs: list[Run] = []
    while snapshot.tables:
        assert len(runs) < 200
        plan = plan_window(snapshot, budget, extents.boundaries)
        runs += plan.runs
        covered = 1 in plan.finishes
        snapshot, _done = snapshot.advanced(Advance(1, runs[-1].upto, covered, 1, 1, 1))
    return runs


relaxed = settings(
    max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@relaxed
@given(tables(), st.integers(1, 6), st.integers(1, 3))
def test_every_row_is_in_exactly_one_run(connection, extents, table, rows, tasks):
    table.make(connection)
    runs = runs_of(extents, table.target, Budget(rows, 1 << 40, tasks, 1))
    read = extents.readings([table.target])[table.target]
    found = [
        number
        for run in runs
        for (number,) in connection.execute(
            f"SELECT n FROM {read.relation} WHERE {read.keyset.between(run.after, run.upto)}".encode()
        )
    ]
    every = [number for (number,) in connection.execute("SELECT n FROM t")]

    assert sorted(found) == sorted(every)
    assert runs[0].after is None
    assert all(one.upto == following.after for one, following in pairwise(runs))


@relaxed
@given(tables(), st.data())
def test_naming_keys_finds_all_of_their_rows_and_no_others(connection, extents, table, data):
    table.make(connection)
    read = extents.readings([table.target])[table.target]
    keyed = connection.execute(f"SELECT n, {read.keyset.texts} FROM t".encode()).fetchall()
    chosen = data.draw(st.lists(st.sampled_from(keyed), min_size=1, unique=True))
    keys = [key for _number, *key in chosen]
    found = connection.execute(f"SELECT n FROM t WHERE {read.keyset.among(keys)} ORDER BY n".encode())
    same = " AND ".join(f"w.k{at} IS NOT DISTINCT FROM t.k{at}" for at in range(len(table.kinds)))
    expected = connection.execute(
        f"SELECT n FROM t WHERE EXISTS (SELECT FROM t w WHERE w.n = ANY (%s) AND {same}) ORDER BY n".encode(),
        [[number for number, *_key in chosen]],
    )

    assert found.fetchall() == expected.fetchall()
