"""The publication of a history: as the script wants it, and restored after changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.torture.row_filters import where
from tests.torture.truth import PREFIX

if TYPE_CHECKING:
    import psycopg

    from tests.torture.script import Script
    from tests.torture.tables import TableShape

NAME = "tidemark"


def create(script: Script) -> str:
    """The statement that creates it."""
    what = "FOR ALL TABLES"
    if script.listed:
        what = f"FOR TABLE {', '.join(['signals', *map(_entry, script.tables)])}"
    root = "true" if script.via_root else "false"
    return f"CREATE PUBLICATION {NAME} {what} WITH (publish_via_partition_root = {root})"


def told(text: str) -> str:
    """The statement that informs the judge through the log, in the same transaction."""
    return f"SELECT pg_logical_emit_message(true, '{PREFIX}', '{text}')"


def unpublish(shape: TableShape) -> list[str]:
    """Remove a table while nobody writes to it."""
    return [
        f"LOCK TABLE {shape.name} IN SHARE MODE",
        f"ALTER PUBLICATION {NAME} DROP TABLE {shape.name}",
        told(f"unpublish {_names(shape)}"),
    ]


def publish(shape: TableShape) -> list[str]:
    """Put it back."""
    return [
        f"LOCK TABLE {shape.name} IN SHARE MODE",
        f"ALTER PUBLICATION {NAME} ADD TABLE {_entry(shape)}",
        told(f"publish {_names(shape)}"),
    ]


def retract(tables: str) -> list[str]:
    """Drop the publication while nobody writes to these tables."""
    return [f"LOCK TABLE {tables} IN SHARE MODE", f"DROP PUBLICATION {NAME}", told("unpublish *")]


def republish(tables: str, statement: str) -> list[str]:
    """Create it again."""
    return [f"LOCK TABLE {tables} IN SHARE MODE", statement, told("publish *")]


def _entry(shape: TableShape) -> str:
    """A table as a publication lists it, with its row filter."""
    return shape.name + where(shape)


def _names(shape: TableShape) -> str:
    return ",".join(f"public.{name}" for name in dict.fromkeys([shape.name, *shape.leaves]))


def publish_all(connection: psycopg.Connection[Any], script: Script) -> None:
    """Restore the publication, whatever the script left undone."""
    with connection.transaction():
        if connection.execute("SELECT FROM pg_publication").fetchone() is None:
            tables = ", ".join(["signals", *(shape.name for shape in script.tables)])
            _run(connection, republish(tables, create(script)))
    if not script.listed:
        return
    found = connection.execute("SELECT prrelid::regclass::text FROM pg_publication_rel").fetchall()
    for shape in script.tables:
        if (shape.name,) not in found:
            with connection.transaction():
                _run(connection, publish(shape))


def _run(connection: psycopg.Connection[Any], statements: list[str]) -> None:
    for statement in statements:
        connection.execute(statement.encode())
