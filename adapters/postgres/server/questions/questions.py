"""What the job asks of PostgreSQL over one connection, and what it does there.

Whatever leaves for the server over SQL leaves through these classes, except for the user's statements that
make a session (`connection`) and the rows that the readers of chunks fetch. Methods are named for what they
answer and give typed values. A simulated server takes their place: it subclasses them, and `Server.open`
returns its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from adapters.postgres.server.failures import source_errors
from adapters.postgres.server.questions.catalog import Catalog
from adapters.postgres.server.questions.catalog_ids import CatalogIds
from adapters.postgres.server.questions.layouts import Layouts
from adapters.postgres.server.questions.locks import Locks
from adapters.postgres.server.questions.probes import TableProbes
from adapters.postgres.server.questions.publications import Publications
from adapters.postgres.server.questions.readiness import Readiness
from adapters.postgres.server.questions.signal_rows import SignalTables
from adapters.postgres.server.questions.slots import Slots
from adapters.postgres.server.questions.snapshots import Snapshots
from adapters.postgres.server.questions.subscriptions import Subscriptions
from adapters.postgres.server.questions.transactions import Transactions

if TYPE_CHECKING:
    import psycopg


class Questions:
    """One connection to the database. Used by one thread.

    - `catalog` describes tables and types, `layouts` says what else the catalog knows of them.
    - `catalog_ids` are what tells a copy of the database from another one.
    - `readiness` is what a job needs before it can run.
    - `probes` look at tables' sizes and keys.
    - `publications` and `slots` are what the log is read through.
    - `subscriptions` say what comes from another server.
    - `transactions` says what is visible and where the log ends, `locks` who waits for whom.
    - `snapshots` holds this connection's snapshot.
    - `signals` writes to the signal table.
    """

    def __init__(self, connection: psycopg.Connection) -> None:
        self._connection = connection
        self.catalog = Catalog(connection)
        self.catalog_ids, self.readiness = CatalogIds(connection), Readiness(connection)
        self.layouts, self.probes = Layouts(connection), TableProbes(connection)
        self.publications, self.slots = Publications(connection), Slots(connection)
        self.transactions, self.locks = Transactions(connection), Locks(connection)
        self.snapshots, self.signals = Snapshots(connection), SignalTables(connection)
        self.subscriptions = Subscriptions(connection)

    def run(self, statement: str, what: str) -> None:
        """Run a statement in a transaction of its own. `what` it is goes into the error."""
        with source_errors(what):
            self._connection.execute(statement.encode())

    def commit_locally(self) -> None:
        """Wait for no standby in transactions of this connection."""
        with source_errors("setting up the control connection"):
            self._connection.execute("SET synchronous_commit = local")

    @property
    def pid(self) -> int:
        """The server's process behind the connection."""
        return self._connection.info.backend_pid

    @property
    def closed(self) -> bool:
        """Whether the connection is closed."""
        return self._connection.closed

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def __enter__(self) -> Self:
        """Close the connection at the end."""
        return self

    def __exit__(self, *_exception: object) -> None:
        """Close the connection."""
        self.close()
