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
    r"password|passwd|pwd|passphrase|secret|token|credential|authorization|jaas"
    r"|(private|access|api|account|keystore|encryption)[._-]?key|key\.pem"
    r"|basic\.auth|user\.info|\bsas\b|(webhook|openlineage)\.url",
    re.IGNORECASE,
)
_ADDRESS_NAME = re.compile(r"hosts?$|servers?$|connection\.string$|ur[il]$", re.IGNORECASE)
_STATEMENT_NAME = re.compile(r"\.initial\.statements$", re.IGNORECASE)
_NAME = (
    r"(?:^|[?&;,:=\s])[\w.-]*(?:password|passwd|pwd|passphrase|secret|token|signature|credential|authorization"
    r"|(?<![a-z])sig|api-?key|access-?key|account-?key|private-?key|encryption-?key|sharedkey)[\w.-]*\s*[=:]"
)
_IN_QUERY = re.compile(rf"{_NAME}(?P<secret>[^&]+)", re.IGNORECASE)
"""A name and a value in the query of an address, which only `&` ends."""
_IN_PROPERTIES = re.compile(rf"{_NAME}(?P<secret>\{{(?:[^}}]|\}}\}})*\}}[^;]*|[^;]+)", re.IGNORECASE)
"""The same in properties of an address, as of SQL Server: `;` ends a value, unless it stands in braces."""
_IN_OPTIONS = re.compile(
    rf"{_NAME}(?P<secret>\"[^\"]*\"|'(?:[^']|'')*'|(?:[^&;,]|,(?!\s*[\w.-]+\s*[=:]))+)", re.IGNORECASE
)
"""The same in a list of options: a comma ends a value if another option follows."""
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

    A password may contain blanks, `@`, `/` and `?`, so a user's password extends to the last `@`. What ends a
    parameter's value depends on the form of the address: a password may contain the marks of other forms.
    """
    start = text.find("://") + 3 if "://" in text else 0
    if "@" in text[start:] and (start or address):
        before = text[start : text.rfind("@")]
        user, colon, password = before.partition(":")
        yield from [(start + len(user) + len(colon), start + len(before))] if password else []
    for match in _parameter(text, address=bool(start) or address).finditer(text, start):
        yield match.span("secret")


def _parameter(text: str, *, address: bool) -> re.Pattern[str]:
    """What finds the secrets among parameters of the form that a text has."""
    if not address:
        return _IN_OPTIONS
    first = re.search("[?;]", text)
    return _IN_PROPERTIES if first is None or first[0] == ";" else _IN_QUERY
