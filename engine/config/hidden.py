"""What may be shown: values that are secret, or that came from outside the file, never are.

Owns recognising secrets by a property's name, and the text that stands for them in messages.
"""

from __future__ import annotations

import re

MASK = "(hidden)"

_SECRET_NAME = re.compile(
    r"password|passwd|passphrase|secret|token|credential|jaas|(private|access|api|account|keystore)[._-]?key"
    r"|basic\.auth|user\.info",
    re.IGNORECASE,
)
_SALT = re.compile(r"(?P<before>\.with\.salt\.).+", re.DOTALL)
_USER_INFO = re.compile(
    r"(?P<before>://[^/\s:@]*:)[^@\s]+@|(?P<query>[?&;](?:password|pwd)=)[^&;\s]+", re.IGNORECASE
)


class Hidden(str):
    """Text that was resolved from a reference: still text, but its repr shows nothing."""

    __slots__ = ()

    def __repr__(self) -> str:
        return MASK


def is_secret(name: str, value: str) -> bool:
    """Tell whether a property's value must not be shown at all."""
    return isinstance(value, Hidden) or _SECRET_NAME.search(name) is not None


def shown_value(name: str, value: str) -> str:
    """Give a property's value as it may be printed; passwords inside addresses are left out."""
    if is_secret(name, value):
        return MASK
    return _USER_INFO.sub(
        lambda found: (found["before"] or found["query"]) + MASK + "@" * bool(found["before"]), value
    )


def shown_name(name: str) -> str:
    """Give a property's name as it may be printed: a hash's salt is a secret in the name."""
    return _SALT.sub(rf"\g<before>{MASK}", name)
