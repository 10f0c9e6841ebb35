"""Bearer tokens and their expiry."""

from __future__ import annotations

import base64
import binascii
import time
from typing import Final

import orjson

_UNTOLD_S: Final = 300.0
"""How long a token that does not say so is assumed to be valid."""


def expiry(token: str) -> float:
    """A token's expiry in seconds since 1970: from a JWT's claims, else a fixed time from now."""
    try:
        claims = token.split(".")[1]
        said = orjson.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))["exp"]
        return float(said)
    except (LookupError, ValueError, TypeError, binascii.Error):
        return time.time() + _UNTOLD_S
