"""Bearer tokens: until when one serves."""

from __future__ import annotations

import base64
import binascii
import time
from typing import Final

import orjson

_UNTOLD_S: Final = 300.0
"""How long a token serves that does not say so."""


def expiry(token: str) -> float:
    """Until when a token serves, in seconds since 1970: what a JWT says, else for a while from now on."""
    try:
        claims = token.split(".")[1]
        said = orjson.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))["exp"]
        return float(said)
    except (LookupError, ValueError, TypeError, binascii.Error):
        return time.time() + _UNTOLD_S
