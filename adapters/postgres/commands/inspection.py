"""Looks at a PostgreSQL server, and says what a job would lack there. `mend` runs a statement."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adapters.postgres.drivers import make_server
from adapters.postgres.server.position import lsn_of
from adapters.postgres.server.sql import quote_ident, quote_table
from adapters.postgres.server.visibility import format_lsn
from adapters.postgres.settings import PostgresSettings
from engine.config.findings import Distance, Finding
from engine.printable import first_named

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from adapters.postgres.server.questions.questions import Questions
    from adapters.postgres.server.questions.readiness import TableSetup
    from engine.config.settings import Settings
    from engine.model import CollectionId, Position

_NAMED = 5
_SIGNALS = "(id varchar(64) PRIMARY KEY, type varchar(32) NOT NULL, data varchar(2048))"


def inspect(settings: Settings) -> list[Finding]:
    """What was found, in the order in which it should be mended. Raises SourceError."""
    with make_server(settings.source_as(PostgresSettings)).open() as questions:
        return list(_findings(settings, questions))


def mend(settings: Settings, statement: str) -> None:
    """Run a statement of a finding. Raises SourceError."""
    with make_server(settings.source_as(PostgresSettings)).open() as questions:
        questions.run(statement, "mending the setup")


def distance(settings: Settings, position: Position | None) -> Distance:
    """How far the log is ahead of a saved position. Raises SourceError."""
    postgres = settings.source_as(PostgresSettings)
    with make_server(postgres).open() as questions:
        end, kept = questions.transactions.log_end(), questions.slots.kept(postgres.slot)
    behind = None if position is None else max(0, end - lsn_of(position))
    told = (
        f"slot {postgres.slot!r} does not exist" if kept is None else f"slot {postgres.slot!r} keeps {kept}"
    )
    return Distance(format_lsn(end), behind, kept=told)


def _findings(settings: Settings, questions: Questions) -> Iterator[Finding]:
    postgres, server = settings.source_as(PostgresSettings), questions.readiness.server()
    role = quote_ident(server.role)
    yield _said(
        f"wal_level is {server.wal_level!r} (PostgreSQL {server.version})",
        server.wal_level == "logical",
        "ALTER SYSTEM SET wal_level = 'logical'",
        restart=True,
    )
    yield _said(
        f"role {server.role!r} {'may' if server.replicates else 'may not'} replicate",
        server.replicates,
        f"ALTER ROLE {role} REPLICATION",
    )
    found = questions.slots.find(postgres.slot)
    if found is None:
        yield _said(
            f"slot {postgres.slot!r} will be created, {server.free_slots} are free", server.free_slots > 0
        )
    else:
        usable = found.plugin == "pgoutput" and found.database == postgres.database
        yield _said(f"slot {postgres.slot!r} exists, of {found.plugin!r} in {found.database!r}", usable)
    tables = [table for table in questions.readiness.tables() if settings.capture.captures(*table.id.parts)]
    yield from _signals(settings, [table.id for table in questions.readiness.tables()])
    yield from _publication(settings, questions, tables)
    yield from _tables(tables, role)


def _signals(settings: Settings, tables: Sequence[CollectionId]) -> Iterator[Finding]:
    signals = settings.signals.collection
    if signals is None:
        return
    there = signals.parts[-2:] in {table.parts for table in tables}
    name = quote_table(*signals.parts[-2:])
    yield _said(f"the signal table {signals} {_exists(there)}", there, f"CREATE TABLE {name} {_SIGNALS}")


def _publication(settings: Settings, questions: Questions, tables: Sequence[TableSetup]) -> Iterator[Finding]:
    publication = settings.source_as(PostgresSettings).publication
    name, published = quote_ident(publication), questions.readiness.published(publication)
    if published is None:
        yield _said(
            f"publication {publication!r} does not exist",
            statement=f"CREATE PUBLICATION {name} FOR ALL TABLES",
        )
        return
    lacking = [table.id for table in tables if table.id not in published]
    yield _said(
        f"publication {publication!r} has {len(published)} tables{_but(lacking, 'lacks')}",
        not lacking,
        f"ALTER PUBLICATION {name} ADD TABLE {_listed(lacking)}",
    )


def _tables(tables: Sequence[TableSetup], role: str) -> Iterator[Finding]:
    hidden = [table.id for table in tables if not table.readable]
    yield _said(
        f"{len(tables)} tables are captured{_but(hidden, 'the role may not read')}",
        not hidden,
        f"GRANT SELECT ON {_listed(hidden)} TO {role}",
    )
    for table in tables:
        if not table.identified:
            yield _said(
                f"{table.id} has no replica identity: once published, its updates and deletes are refused",
                statement=f"ALTER TABLE {quote_table(*table.id.parts)} REPLICA IDENTITY FULL",
            )


def _said(text: str, there: bool = False, statement: str = "", *, restart: bool = False) -> Finding:  # noqa: FBT001, FBT002  reads as a sentence
    return Finding(text, not there, "" if there else statement, restart and not there)


def _exists(there: bool) -> str:  # noqa: FBT001  likewise
    return "exists" if there else "does not exist"


def _but(tables: Sequence[CollectionId], what: str) -> str:
    return f", {what} {first_named(tables, _NAMED)}" if tables else ""


def _listed(tables: Sequence[CollectionId]) -> str:
    return ", ".join(quote_table(*table.parts) for table in tables)
