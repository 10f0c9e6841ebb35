"""What PostgreSQL and libpq say only in words.

libpq has no SQLSTATE for a connection that is refused: it does not hand on the server's, and its own faults
have none. In the log, an SQLSTATE can mean several faults: 42704 a missing publication or slot, 55000 an
invalidated slot or a server without logical decoding, 58P01 a removed segment or a missing library. Seen in
libpq 18 with psycopg 3.3.9, and in PostgreSQL 18.
"""

from __future__ import annotations

import re

from engine.errors import Loss

_HINTS = {
    re.compile(
        r'(password|peer|SASL|certificate) authentication failed|(role|database) ".*" does not exist'
        r"|no pg_hba.conf entry|no password supplied"
    ): "check database.user, database.password, database.dbname and the server's pg_hba.conf",
    re.compile(
        r"certificate verify failed|does not match host name|root certificate file|does not support SSL"
        r"|could not (load|read) (private key|certificate)"
        r"|(certificate|private key) file .* (does not|has group)"
        r"|alert (unknown ca|certificate required|bad certificate)|requires a valid client certificate"
    ): "check database.sslmode, database.sslrootcert, database.sslcert and database.sslkey",
    re.compile(
        r"permission denied to start WAL sender|must be superuser or replication role to start walsender"
    ): "run as a superuser: ALTER ROLE … REPLICATION, for the role of database.user",
}
"""Refusals of a connection that no retry repairs, with what to check."""
_NO_PUBLICATION = re.compile(r'publication ".*" does not exist')
_REMOVED = ("requested WAL segment", "can no longer get changes from replication slot")
_INVALIDATED = "has been invalidated"


def refused_line(text: str) -> tuple[str, str] | None:
    """The line that refuses a connection until a setting changes, and what to check; None if none does."""
    for line in text.splitlines():
        for pattern, hint in _HINTS.items():
            if pattern.search(line):
                return line.strip(), hint
    return None


def lacks_publication(text: str) -> bool:
    """Whether the log can't be decoded because the publication does not exist there."""
    return _NO_PUBLICATION.search(text) is not None


def loss_in(text: str) -> Loss | None:
    """How the log was lost, if no retry brings it back."""
    if _INVALIDATED in text:
        return Loss.SLOT_INVALIDATED
    return Loss.LOG_REMOVED if any(words in text for words in _REMOVED) else None
