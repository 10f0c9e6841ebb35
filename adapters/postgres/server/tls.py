"""TLS to the server: what libpq and pgjdbc are told, and the client's key in the form that each reads.

libpq reads the log, pgjdbc the tables. Their settings have the same names and take the same files, except for
the client's key: libpq reads PEM or DER, pgjdbc only DER (PKCS #8). So a PEM key is copied as DER into the
staging directory, where the executors find it. An encrypted key can't serve: no form of it is read by both.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from adapters.postgres.settings import SslMode
from engine.errors import ConfigError

if TYPE_CHECKING:
    from adapters.postgres.settings import PostgresSettings

_PEM: Final = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)
_PLAIN: Final = b"PRIVATE KEY"
_VERSION: Final = b"\x02\x01\x00"
"""An unencrypted PKCS #8 key begins with its version, an encrypted one with its algorithm."""


def tls_parameters(postgres: PostgresSettings) -> dict[str, str]:
    """The settings, under the names that libpq and pgjdbc share.

    In libpq, `require` with a root certificate means `verify-ca`. pgjdbc would verify nothing, so it is told
    `verify-ca`.
    """
    verifies = postgres.ssl_mode is SslMode.REQUIRE and postgres.ssl_root_cert
    given = {
        "sslmode": (SslMode.VERIFY_CA if verifies else postgres.ssl_mode).value,
        "sslcert": postgres.ssl_cert,
        "sslkey": postgres.ssl_key,
        "sslpassword": postgres.ssl_password,
        "sslrootcert": postgres.ssl_root_cert,
    }
    return {name: value for name, value in given.items() if value}


def readers_key(path: str, directory: str) -> dict[str, str]:
    """The path that pgjdbc gets instead of a key that it can't read: a copy in `directory`.

    Raises ConfigError for a key that is encrypted or not PKCS #8.
    """
    key = checked_key(path)
    if key is None:
        return {}
    copy = Path(directory) / "client.pk8"
    copy.parent.mkdir(parents=True, exist_ok=True)
    copy.unlink(missing_ok=True)
    with os.fdopen(os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(key)
    return {"sslkey": str(copy)}


def checked_key(path: str) -> bytes | None:
    """The key as DER if the file has it as PEM; None if it is DER already or there is no key."""
    if not path:
        return None
    try:
        text = Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(f"'database.sslkey': can't read {path!r}: {error.strerror}") from error
    found = _PEM.search(text)
    if found is None:
        _check(path, text)
        return None
    if found[1] != _PLAIN:
        raise _unusable(path, f"holds {found[1].decode()!r}")
    try:
        key = base64.b64decode(found[2])
    except binascii.Error as error:
        raise _unusable(path, "is no PEM") from error
    _check(path, key)
    return key


def _check(path: str, key: bytes) -> None:
    """Raise ConfigError unless this is an unencrypted PKCS #8 key: a sequence starting with the version."""
    if not key.startswith(b"\x30"):
        raise _unusable(path, "is neither PEM nor DER")
    # The length is one byte, or one byte that says how many length bytes follow.
    content = 2 + (key[1] & 0x7F if len(key) > 1 and key[1] & 0x80 else 0)
    if not key[content:].startswith(_VERSION):
        raise _unusable(path, "is encrypted")


def _unusable(path: str, what: str) -> ConfigError:
    return ConfigError(
        f"'database.sslkey': {path!r} {what}; it must be an unencrypted PKCS #8 key, as PEM or DER",
        hint="convert it: openssl pkcs8 -topk8 -nocrypt -in KEY -out NEW",
    )
