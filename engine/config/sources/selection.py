"""What include and exclude lists select: the tables whose changes become events.

Expressions use Java's syntax.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.expressions import matches


@dataclass(frozen=True, slots=True)
class CaptureSettings:
    """Which tables' changes become events. An empty include list includes everything."""

    include_schemas: tuple[str, ...] = ()
    exclude_schemas: tuple[str, ...] = ()
    include_tables: tuple[str, ...] = ()
    exclude_tables: tuple[str, ...] = ()

    def captures(self, schema: str, table: str) -> bool:
        """Apply the schema lists to `schema` and the table lists to `schema.table`.

        The caller handles system schemas and the exception for the signal table.
        """
        return _selected(schema, self.include_schemas, self.exclude_schemas) and _selected(
            f"{schema}.{table}", self.include_tables, self.exclude_tables
        )


def _selected(name: str, include: tuple[str, ...], exclude: tuple[str, ...]) -> bool:
    return matches(include, name) if include else not matches(exclude, name)
