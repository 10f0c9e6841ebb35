"""Hides secrets, and values that came from outside the file, in messages.

Owns recognising secrets, by a property's name and inside addresses, and the text that replaces them.
`references.py` resolves where a secret comes from.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import unquote

from engine.config.text.mask import MASK
from engine.config.text.references import Hidden

if TYPE_CHECKING:
    from collections.abc import Iterator

_SECRET_NAME = re.compile(
    r"password|passwd|passphrase|secret|token|credential|jaas|(private|access|api|account|keystore)[._-]?key"
    r"|basic\.auth|user\.info|\bsas\b|(webhook|openlineage)\.url",
    re.IGNORECASE,
)
_ADDRESS_NAME = re.compile(r"hosts?$|servers?$|connection\.string$|ur[il]$", re.IGNORECASE)
_STATEMENT_NAME = re.compile(r"\.initial\.statements$", re.IGNORECASE)
_PARAMETER = re.compile(
    r"(?P<before>(?:^|[?&;,:=\s])[\w.-]*(?:password|passwd|pwd|passphrase|secret|token|signature|credential"
    r"|(?<![a-z])sig|api-?key|access-?key|account-?key|private-?key|sharedkey)[\w.-]*\s*[=:])"
    r"(?P<secret>\"[^\"]*\"|'[^']*'|[^&;,]+)",
    re.IGNORECASE,
)
"""A name and a value, as in a query string, authentication properties or a list of options."""
_LITERAL = re.compile(r"'(?:[^']|'')*'")


def is_secret(name: str, value: str) -> bool:
    """Whether a property's value must not be shown at all."""
    return isinstance(value, Hidden) or _SECRET_NAME.search(name) is not None


def shown_value(name: str, value: str) -> str:
    """A property's value as it may be printed, without secrets inside addresses and statements."""
    if is_secret(name, value):
        return MASK
    if _STATEMENT_NAME.search(name):
        return _LITERAL.sub(f"'{MASK}'", value)
    return without_secrets(value, address=_ADDRESS_NAME.search(name) is not None)


def without_secrets(text: str, *, address: bool = False) -> str:
    """A text without its passwords and tokens. An `address` may have a user without a scheme."""
    shown, at = [], 0
    for start, end in sorted(_secrets(text, address=address)):
        shown += [text[at:start], MASK] if start >= at else []
        at = max(at, end)
    return "".join((*shown, text[at:]))


def hidden_in(message: str, value: str) -> str:
    """A message about a value, without the value's secrets in any spelling."""
    secrets = {value[start:end] for start, end in _secrets(value, address=True)}
    for secret in sorted({*secrets, *map(unquote, secrets)}, key=len, reverse=True):
        message = message.replace(secret, MASK) if len(secret) > 2 else message
    return message


def _secrets(text: str, *, address: bool) -> Iterator[tuple[int, int]]:
    """The places of secrets: the password before a host, and values of parameters with secret names.

    A password may contain blanks, `@`, `/` and `?`, so a user's password extends to the last `@`.
    """
    start = text.find("://") + 3 if "://" in text else 0
    if "@" in text[start:] and (start or address):
        before = text[start : text.rfind("@")]
        user, colon, password = before.partition(":")
        yield from [(start + len(user) + len(colon), start + len(before))] if password else []
    for match in _PARAMETER.finditer(text, start):
        yield match.span("secret")
