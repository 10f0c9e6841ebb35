"""Which columns of a target can be compared. What their casts make of values is asked of the stand-in."""

from __future__ import annotations

import pytest

from adapters.sqlserver.foreign.casts import Cast, absent, cast_of
from adapters.sqlserver.server.table import Column
from engine.errors import SourceError


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (Column("a", 1, "date"), Column("a", 1, "time", scale=7)),
        (Column("a", 1, "time", scale=7), Column("a", 1, "date")),
        (Column("a", 1, "int"), Column("a", 1, "date")),
        (Column("a", 1, "int"), Column("a", 1, "xml")),
        (Column("a", 1, "int"), Column("a", 1, "sql_variant")),
        (Column("a", 1, "varbinary", 10), Column("a", 1, "varchar", 10)),
        (Column("a", 1, "varchar", 10), Column("a", 1, "int")),
        (Column("a", 1, "uniqueidentifier"), Column("a", 1, "binary", 16)),
        (Column("a", 1, "geometry"), Column("a", 1, "geography")),
    ],
)
def test_types_without_a_cast_that_is_known_to_be_honest_are_refused(source: Column, target: Column):
    with pytest.raises(SourceError, match=f"'a' is a {target.type}.* can't be compared .* {source.type}"):
        cast_of(source, target)


def test_a_column_of_the_same_type_is_read_as_it_is_and_may_be_null():
    source = Column("a]", 1, "datetime2", scale=3, nullable=False)

    found = cast_of(source, source)

    assert found == Cast(Column("a]", 1, "datetime2", scale=3, nullable=True), "t.[a]]]")


def test_a_text_is_no_shorter_than_the_target_has_it():
    found = cast_of(Column("a", 1, "varchar", 3, collation="X_CI"), Column("a", 1, "nvarchar", 9))

    assert found == Cast(Column("a", 1, "nvarchar", -1), "CONVERT(nvarchar(max), t.[a])")


def test_what_events_do_not_have_is_null():
    assert absent(Column("a", 1, "int", computed=True)) == Cast(Column("a", 1, "int"), "CONVERT(int, NULL)")
