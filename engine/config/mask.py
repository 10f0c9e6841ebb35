"""What stands for a secret in messages, and names of properties without the secrets in them."""

from __future__ import annotations

import re
from typing import Final

MASK: Final = "(hidden)"
_SALT: Final = re.compile(r"(?P<before>\.with\.salt\.).+", re.DOTALL)


def shown_name(name: str) -> str:
    """Give a property's name as it may be printed: a hash's salt is a secret in the name."""
    return _SALT.sub(rf"\g<before>{MASK}", name)
