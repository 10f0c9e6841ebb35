"""OIDC for MongoDB: the token that the driver requests when it needs one."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from pymongo.auth_oidc import OIDCCallback, OIDCCallbackContext, OIDCCallbackResult

from adapters.kafka.tokens import expiry
from engine.config.text.references import resolve_again


@dataclass(frozen=True)
class Token(OIDCCallback):
    """The callback. `token` refers to the token's source."""

    token: str = field(repr=False)

    def fetch(self, _context: OIDCCallbackContext) -> OIDCCallbackResult:
        """Get the token. Raises SourceError if the provider has none."""
        token = resolve_again(self.token)
        return OIDCCallbackResult(str(token), expires_in_seconds=max(0.0, expiry(token) - time.time()))
