"""What opening the log sets up over one connection; every opening makes a new one."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from adapters.postgres.conditions.selection import Selections
from adapters.postgres.server.publication import Publication, ensure_publication
from adapters.postgres.server.session_pool import Sessions
from adapters.postgres.server.watches.column_watch import ColumnWatch
from adapters.postgres.server.watches.membership import MembershipWatch
from adapters.postgres.settings import PostgresSettings
from adapters.postgres.snapshot.eligibility import Eligibility
from adapters.postgres.snapshot.tables import PostgresTables
from engine.config.settings import NewCollections
from engine.events.record.shaping import is_included
from engine.expressions import matches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from adapters.postgres.events.relations import Relations
    from adapters.postgres.server.connection import Server
    from adapters.postgres.server.questions.catalog import Catalog
    from adapters.postgres.server.questions.questions import Questions
    from adapters.postgres.snapshot.blocking import BlockingViews
    from adapters.postgres.snapshot.initial_view import InitialView
    from engine.clock import Clock
    from engine.config.settings import Settings
    from engine.model import CollectionId

_log = logging.getLogger("adapters")


@dataclass(frozen=True, slots=True)
class Views:
    """The snapshots that several windows share: the initial one's and the blocking ones'."""

    initial: InitialView
    blocking: BlockingViews


@dataclass(frozen=True, slots=True)
class LogSession:
    """The questions, what is known of tables, and the sessions that hold the windows' snapshots."""

    questions: Questions
    tables: PostgresTables
    relations: Relations
    membership: MembershipWatch
    columns: ColumnWatch | None
    pool: Sessions
    publication: Publication

    @property
    def ids(self) -> dict[int, CollectionId]:
        """The names of relations, from the log and from lookups."""
        return {**self.tables.ids, **self.relations.ids}

    def names(self, oids: Iterable[int]) -> dict[int, CollectionId]:
        """The names of these relations, which the log or a window has told."""
        return {oid: self.relations.ids[oid] for oid in oids}

    def captured(self, settings: Settings) -> list[CollectionId]:
        """The tables that the settings capture."""
        return [table for table in self.questions.catalog.tables() if captures(settings, *table.parts)]

    def close(self) -> None:
        """Close the connections."""
        self.pool.close()
        self.questions.close()


def open_session(
    settings: Settings,
    server: Server,
    views: Views,
    clock: Clock,
    relations: Callable[[Catalog], Relations],
) -> LogSession:
    """Open the connection that is asked, and all that asks over it. `relations` makes those of the log."""
    questions = server.open()
    # A missing synchronous standby must not block a transaction that only flushes the log.
    questions.commit_locally()
    postgres = settings.source_as(PostgresSettings)
    publication = Publication(postgres.publication, partial(captures, settings))
    eligibility = Eligibility(
        questions,
        publication,
        Selections(questions, settings.snapshot.conditions),
        lambda table: matches(postgres.accept_risk, str(table)),
        views.initial,
        views.blocking,
    )
    whole = 0 if settings.job.window_max_chunks else None
    tables = PostgresTables(
        questions,
        publication,
        eligibility,
        clock,
        blocking=views.blocking,
        whole_bytes=whole,
        plan_on=lambda within_s: server.open(within_s=within_s),
    )
    fills = settings.snapshot.new is NewCollections.COLUMNS
    membership = MembershipWatch(
        questions, publication, settings.capture.captures, clock.monotonic, fills=fills
    )
    carries = partial(is_included, settings=settings.events)
    columns = ColumnWatch(questions, publication, carries, clock.monotonic) if fills else None
    pool = Sessions(server.open, clock.monotonic)
    return LogSession(questions, tables, relations(questions.catalog), membership, columns, pool, publication)


def publish(settings: Settings, server: Server, session: LogSession) -> None:
    """Find the publication, or create it if the settings say so."""
    postgres = settings.source_as(PostgresSettings)
    ensure_publication(
        server,
        postgres.publication,
        postgres.publication_autocreate,
        partial(session.captured, settings),
    )


def warn_of_bare_inserts(session: LogSession, told: set[CollectionId]) -> None:
    """Warn of tables whose rows may come into a row filter without their large values; of each once.

    `told` are the tables that were warned of before.
    """
    name = session.publication.name
    for table in session.publication.bare_inserts(session.questions.publications):
        if table not in told:
            told.add(table)
            _log.warning(
                "publication %r has a row filter for %s, whose replica identity is not FULL: a key change"
                " that brings a row into the filter is streamed as an insert without the large values that"
                " it left unchanged; set REPLICA IDENTITY FULL, or request a snapshot after such changes",
                name,
                str(table),
            )


def captures(settings: Settings, schema: str, table: str) -> bool:
    """Whether a table's changes are captured; the signal table's always are."""
    signal = settings.signals.collection
    if signal is not None and signal.parts[-2:] == (schema, table):
        return True
    return settings.capture.captures(schema, table)
