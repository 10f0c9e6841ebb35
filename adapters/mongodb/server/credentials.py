"""MongoDB's OIDC: a token that the driver asks for whenever it needs one."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from pymongo.auth_oidc import OIDCCallback, OIDCCallbackContext, OIDCCallbackResult

from adapters.kafka.tokens import expiry
from engine.config.references import fresh


@dataclass(frozen=True)
class Token(OIDCCallback):
    """The callback; `token` is text with where it came from."""

    token: str = field(repr=False)

    def fetch(self, _context: OIDCCallbackContext) -> OIDCCallbackResult:
        """Ask for it. Raises SourceError where the provider has none."""
        token = fresh(self.token)
        return OIDCCallbackResult(str(token), expires_in_seconds=max(0.0, expiry(token) - time.time()))
