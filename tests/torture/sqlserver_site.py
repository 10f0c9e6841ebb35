"""A history's SQL Server: the stand-in's databases, their definitions, and the truth from change tables."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg

from tests.torture.emitted import Emitted
from tests.torture.losses import recovers
from tests.torture.oracle import Table
from tests.torture.site import Lasting
from tests.torture.sqlserver_clerk import LSN, Clerk, one
from tests.torture.sqlserver_losses import lose_changes
from tests.torture.sqlserver_oracle import SqlServerOracle
from tests.torture.sqlserver_tables import create, first_rows, key_of, kinds, told
from tests.torture.sqlserver_truth import Truth, commit_of, number, table_rows
from tests.torture.sqlserver_writers import Capturer, SqlServerWriter
from tests.torture.truth import UnexpectedWrite

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Sequence

    from tests.servers.sqlserver import SqlServer
    from tests.torture.journal import JournalReader
    from tests.torture.play import Play
    from tests.torture.script import Blow, Round, Script, Sent, Strike
    from tests.torture.sqlserver_truth import Connection
    from tests.torture.truth import Entry, Row

Answer = TypeVar("Answer")

_SIGNALS = (
    "CREATE TABLE dbo.signals (id varchar(64) PRIMARY KEY, type varchar(32) NULL, data nvarchar(max) NULL)"
)
_SIGNAL = (
    "INSERT INTO dbo.signals SELECT %s::text, %s::text, %s::text"
    " WHERE NOT EXISTS (SELECT FROM dbo.signals WHERE id = %s::text)"
)
_PATIENCE_S = 60.0
_PLACE_PARTS = 4
"""The parts of each database's place in a position; the first is the commit."""


@dataclass(slots=True)
class SqlServerSite(Lasting):
    """Databases for one script. Their capture job runs until `close`."""

    script: Script
    server: SqlServer
    oracle: SqlServerOracle = field(default_factory=SqlServerOracle)
    signals: str = ""
    begins_late: bool = True
    capturer: Capturer = field(init=False)
    clerk: Clerk = field(init=False)
    _truths: dict[str, Truth] = field(default_factory=dict)
    _marks: int = 0
    _journal: JournalReader | None = None
    _before: int = 0

    def __post_init__(self) -> None:
        names = self.script.database["databases"].split(",")
        self._truths = {name: Truth(name) for name in names}
        self.signals = ",".join(f"{name}.dbo.signals" for name in names)
        draw = Random(f"{self.script.seed}/clerk")
        self.clerk = Clerk(self.server, self.script.tables, self.oracle, self._truths, draw)
        delay_s = float(self.script.database["delay_s"])
        self.capturer = Capturer(self.server, names, delay_s, Random(self.script.seed))

    @property
    def databases(self) -> list[str]:
        """The databases' names, in the order of positions."""
        return list(self._truths)

    # Before.

    def prepare(self) -> None:
        """Create databases, tables and capture instances."""
        for name in self.databases:
            self.server.create_database(name).execute(_SIGNALS)
            self._on(name, lambda connection: connection.execute("CREATE SEQUENCE public.versions"))
            self.server.databases[name].enable_cdc("dbo.signals")
            self.oracle.know(Table(f"{name}.dbo.signals", ("id",), {}))
        for captured in self.clerk.captured:
            shape = captured.shape
            for statement in create(shape):
                self.server.databases[shape.database].execute(statement)
            for statement in (*first_rows(shape), f"ANALYZE {captured.table}"):
                self._run(shape.database, statement)
            self.clerk.enable(captured)
            table = Table(captured.name, key_of(shape), {})
            table.start(self.rows(captured.name))
            self.oracle.know(table)
        self.capturer.start()

    def close(self) -> None:
        """Stop the capture job."""
        self.capturer.close()

    def properties(self) -> dict[str, str]:
        """The job's source. The stand-in has the same host and password."""
        postgres = self.server.postgres
        return {
            "connector.class": "io.debezium.connector.sqlserver.SqlServerConnector",
            "database.hostname": postgres.host,
            "database.port": str(postgres.port),
            "database.user": postgres.user,
            "database.password": postgres.password,
            "database.names": ",".join(self.databases),
            "decimal.handling.mode": "string",
        }

    # Meanwhile.

    def act(self, scene: str, play: Play, journal: JournalReader) -> None:
        """Play a scene."""
        # it plays on this site
        from tests.torture.sqlserver_scenes import play_scene  # noqa: PLC0415

        play_scene(scene, play, self, journal)

    def writers(
        self,
        number: int,  # noqa: ARG002
        one: Round,
        stop: threading.Event,
        journal: JournalReader,  # noqa: ARG002
    ) -> list[SqlServerWriter]:
        """A writer per list of transactions."""
        return [
            SqlServerWriter(self.server, self.script.tables, transactions, stop, self.clerk.define)
            for transactions in one.writers
        ]

    def hit(self, strike: Strike, label: str, stop: threading.Event) -> bool:
        """There are no strikes on SQL Server."""
        raise NotImplementedError(strike)

    def send(self, sent: Sent, stop: threading.Event) -> None:  # noqa: ARG002  it waits for the server
        """Insert the signal's row into the signal table of one of the databases.

        Of what is signalled in two databases nobody knows which comes first. A pause must come before what
        resumes it, so both go into one.
        """
        in_order = sent.kind in {"pause", "resume"}
        database = self.databases[0 if in_order else sum(sent.id.encode()) % len(self.databases)]
        values = [sent.id, sent.type, sent.data, sent.id]
        self._on(database, lambda connection: connection.execute(_SIGNAL, values))

    def restart(self, how: str) -> None:
        """Restart the server."""
        self.server.postgres.restart("fast" if how == "fast" else "immediate")

    # At rest.

    @property
    def transactions(self) -> int:
        """From the change tables."""
        return sum(truth.commits for truth in self._truths.values())

    def deal(self, blow: Blow, play: Play, journal: JournalReader) -> str:
        """Lose the log of one of the databases."""
        lost = Random(f"{self.script.seed}/{play.figures.kinds.total()}").choice(self.databases)
        self._before, self._journal = len(journal.read()), journal
        return lose_changes(blow, play, journal, self.server.databases[lost])

    def settle(self) -> None:
        """Do nothing: the server ends transactions whose client is gone."""

    def mark(self) -> tuple[str, ...]:
        """The LSNs of new signals, one in each database."""
        return tuple(self._on(name, self._mark) for name in self.databases)

    def _mark(self, connection: Connection) -> str:
        self._marks += 1
        with connection.transaction():
            connection.execute(
                "INSERT INTO dbo.signals VALUES (%s::text, 'log', '{\"message\": \"mark\"}')",
                [f"mark{self._marks}"],
            )
            return commit_of(number(one(connection, LSN.format("mssql.numbered()"))))

    def passed(self, position: Sequence[Any], end: tuple[str, ...]) -> bool:
        """By the commit of each database's place. A place in a log that is lost counts for nothing."""
        if self._journal and not self._journal.streams_since(self._before):
            return False
        return all(commit >= mark for commit, mark in zip(position[::_PLACE_PARTS], end, strict=True))

    def place_of(self, position: Sequence[Any]) -> int:  # noqa: ARG002  no table is set aside here
        """Never used."""
        return 0

    def entries(self) -> list[Entry]:
        """From the change tables. Afterwards fully read capture instances may be dropped.

        Where logs are lost only the rows count, and nobody follows the log.
        """
        if recovers(self.script):
            return []
        found = [entry for name, truth in self._truths.items() for entry in self._on(name, truth.read)]
        self.clerk.tidy()
        return found

    def begin(self, journal: JournalReader) -> list[str] | None:
        """Where the log was opened for the first committed turn."""
        begin: list[str] | None = None
        for note in journal.of("opened", "committed", "turn"):
            if note["what"] != "opened":
                break
            begin = note["position"][::_PLACE_PARTS]
        return begin

    def is_before(self, entry: Entry, begin: list[str]) -> bool:
        """By the commit LSN."""
        database = entry.tables[0].partition(".")[0]
        return commit_of(entry.transaction) <= begin[self.databases.index(database)]

    def signal_id(self, row: Row) -> str | None:
        """The signal's id."""
        return row.get("id")

    def marks_window(self, entry: Entry) -> bool:
        """Whether the entry is a watermark row or its removal."""
        return entry.op == "d" or (entry.new.get("type") or "").startswith("snapshot-window-")

    def emitted(self, turn: int, topic: str, key: Any, value: Any) -> Emitted | None:  # noqa: ARG002
        """Read an event of a row; None for tombstones and schema changes."""
        if value is None or "tableChanges" in value:
            return None
        source = value["source"]
        table = f"{source['db']}.{source['schema']}.{source['table']}"
        if not topic.endswith(f".{table}"):
            raise UnexpectedWrite(f"an event of {table} is in topic {topic}")
        commit, change = source["commit_lsn"], source["change_lsn"]
        return Emitted(
            turn,
            table,
            value["op"],
            self._image(table, value["before"]),
            self._image(table, value["after"]),
            None if value["op"] == "r" else number(commit, change),
            snapshot=str(source["snapshot"]),
            place=source["event_serial_no"] or 0,
        )

    def _image(self, table: str, image: dict[str, Any] | None) -> dict[str, Any] | None:
        if image is None:
            return None
        shape = next((capture.shape for capture in self.clerk.captured if capture.name == table), None)
        known = kinds(shape) if shape else {}
        return {name: told(value, known.get(name, "")) for name, value in image.items()}

    def rows(self, name: str) -> list[Row]:
        """A table's rows, as the database prints them."""
        database, _, table = name.partition(".")
        return self._on(database, lambda connection: table_rows(connection, table))

    # Connections.

    def _run(self, database: str, statement: str) -> None:
        self._on(database, lambda connection: connection.execute(statement.encode()))

    def _on(self, database: str, ask: Callable[[Connection], Answer]) -> Answer:
        """Query on a new connection, retrying while the server is away."""
        until = time.monotonic() + _PATIENCE_S
        while True:
            try:
                with self.server.postgres.connect(database) as connection:
                    return ask(connection)
            except psycopg.OperationalError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.1)
