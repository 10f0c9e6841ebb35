"""Tells when a change stream can't go on because `capture.scope` or `capture.target` has changed.

The server resumes a stream only after an event that the stream itself has. A wider scope has the events of
the narrower one, except for the `invalidate` after a drop. Another scope may lack the event streamed last.
Whoever looks for that event there would take the server for a restored one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from adapters.mongodb.settings import CaptureScope
from engine.errors import ConfigError

if TYPE_CHECKING:
    from adapters.mongodb.saved import SavedCapture
    from adapters.mongodb.settings import MongoSettings


def scope_change(saved: SavedCapture | None, mongodb: MongoSettings) -> ConfigError | None:
    """The error for an event that is missing in the scope of the settings, and was streamed in another one.

    `saved` is what the state keeps of the settings that streamed it. None if the scope is the same, or if
    the state says nothing of it.
    """
    if saved is None:
        return None
    before, now = _shown(saved["scope"], saved["target"]), _shown(mongodb.scope, mongodb.target)
    if before == now:
        return None
    return ConfigError(
        f"the change stream of {before} can't be continued with {now}: the event streamed last is not in it",
        hint=f"go on with {before}, and choose collections with the include lists; or change the scope when"
        " the event streamed last is in both; or start with an empty checkpoint and an empty sink directory",
    )


def _shown(scope: str, target: str) -> str:
    """A scope as its properties. The whole deployment has no target."""
    if scope == CaptureScope.DEPLOYMENT:
        return f"'capture.scope={scope}'"
    return f"'capture.scope={scope}', 'capture.target={target}'"
