"""The text that replaces a secret in messages, and property names without secrets."""

from __future__ import annotations

import re
from typing import Final

MASK: Final = "(hidden)"
_SALT: Final = re.compile(r"(?P<before>\.with\.salt\.).+", re.DOTALL)


def shown_name(name: str) -> str:
    """A property's name as it may be printed. A hash's salt is a secret in the name."""
    return _SALT.sub(rf"\g<before>{MASK}", name)
