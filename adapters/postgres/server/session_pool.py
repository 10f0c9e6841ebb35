"""A pool of the sessions that hold windows' snapshots."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adapters.source.spare_sessions import SpareSessions

if TYPE_CHECKING:
    from adapters.postgres.server.questions.questions import Questions

_IDLE = "'transaction_timeout', 'idle_in_transaction_session_timeout'"
_OFF = "SELECT set_config(name, '0', false) FROM pg_settings WHERE name IN"
NO_TIMEOUTS = f"{_OFF} ('statement_timeout', {_IDLE})"
"""A window lasts as long as it must, whatever timeouts the role or the database sets."""
NO_IDLE_TIMEOUTS = f"{_OFF} ({_IDLE})"
"""The same for a reader of its rows; its start-up options bound its single queries."""


class Sessions(SpareSessions["Questions"]):
    """Hands out sessions without timeouts, outside of a transaction.

    One that is given back ends its transaction, without waiting for the server's answer.
    """

    def _open_session(self) -> Questions:
        session = super()._open_session()
        try:
            session.snapshots.remove_timeouts(NO_TIMEOUTS)
        except Exception:
            session.close()
            raise
        return session

    def _is_usable(self, session: Questions) -> bool:
        return session.snapshots.finish_ending()

    def _make_ready(self, session: Questions) -> bool:
        return session.snapshots.begin_ending()
