"""The catalogs of the golden cases, recorded once so that their logs can be decoded without a server.

A case has one state of the catalog, or one after each statement where its changes alter tables.
`python -m tests.unit.golden_wal.catalogs` records them again, on PostgreSQL 15.
"""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adapters.postgres.events.columns.builtin_types import BUILTIN
from adapters.postgres.server.questions.catalog import Catalog
from adapters.postgres.server.table import Column, PgType, Table
from engine.model import CollectionId
from tests.servers.postgres import PostgresServer

if TYPE_CHECKING:
    from collections.abc import Iterator

CASES = Path(__file__).parents[2] / "golden" / "postgres"
RECORDED = Path(__file__).parent / "catalogs"
_SYSTEM = {"pg_catalog", "information_schema"}


@dataclasses.dataclass(frozen=True, slots=True)
class State:
    """The tables by name and the types by oid at one moment."""

    tables: dict[str, Table]
    types: dict[int, PgType]


def states(case: str) -> list[State]:
    """The recorded states of a case, in order."""
    return [_state(recorded) for recorded in json.loads((RECORDED / f"{case}.json").read_text("utf-8"))]


def _state(document: dict[str, Any]) -> State:
    tables = {}
    for table in document["tables"]:
        columns = tuple(Column(**column) for column in table.pop("columns"))
        name = CollectionId(tuple(table.pop("id")))
        lists: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in table.items()
        }
        tables[str(name)] = Table(id=name, columns=columns, **lists)
    types = [PgType(**{**kind, "labels": tuple(kind.get("labels", ()))}) for kind in document["types"]]
    return State(tables, {kind.oid: kind for kind in types})


def _document(catalog: Catalog) -> dict[str, Any]:
    tables = catalog.describe(catalog.tables()).values()
    types = [
        kind for oid, kind in catalog.types().items() if oid not in BUILTIN and kind.schema not in _SYSTEM
    ]
    return {
        "tables": [
            {
                **_brief(table),
                "id": list(table.id.parts),
                "columns": [_brief(column) for column in table.columns],
            }
            for table in sorted(tables, key=lambda table: table.id)
        ],
        "types": [_brief(kind) for kind in sorted(types, key=lambda kind: kind.oid)],
    }


def _brief(value: Any) -> dict[str, Any]:
    return {
        field.name: getattr(value, field.name)
        for field in dataclasses.fields(value)
        if getattr(value, field.name) != field.default
    }


def _record(server: PostgresServer, folder: Path) -> Iterator[dict[str, Any]]:
    database = server.create_database("recorded")
    with database.connect() as connection:
        catalog = Catalog(connection)
        server.psql("recorded", "--quiet", input_text=(folder / "setup.sql").read_text("utf-8"))
        yield _document(catalog)
        change = (folder / "change.sql").read_text("utf-8")
        if re.search("ALTER TABLE", change):
            for line in change.splitlines():
                server.psql("recorded", "--quiet", input_text=line)
                if "ALTER TABLE" in line:
                    yield _document(catalog)
    server.drop_database("recorded")


def main() -> None:
    """Record the catalogs of all cases that have a log."""
    with PostgresServer(15) as server:
        for folder in sorted(CASES.iterdir()):
            log = folder / "wal.jsonl"
            if log.exists() and log.stat().st_size:
                text = json.dumps(list(_record(server, folder)), ensure_ascii=False, separators=(",", ":"))
                (RECORDED / f"{folder.name}.json").write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    main()
