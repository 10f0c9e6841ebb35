"""Certificates of snapshots, in a directory beside the state: a file per turn, a line per certificate.

    certificates-000000000042.jsonl   those that turn 42 has issued
    seed                              the seed of the rows' digests, as 16 hexadecimal digits

They are never removed or changed. Each names the SHA-256 of the line before it.
"""

from __future__ import annotations

import re
import secrets
from typing import TYPE_CHECKING, Any, Final

import orjson

from engine.errors import StateError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from adapters.storage.answer_journal import AnswerFiles
    from adapters.storage.directory import Storage

DIRECTORY: Final = "certificates"
_SEED: Final = "seed"
_NAME: Final = re.compile(r"certificates-(\d{12,})\.jsonl")


class CertificateDirectory:
    """Keeps certificates, for the job that holds the checkpoint's lease."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def keep(self, turn: int, certificates: Sequence[str]) -> None:
        """Write one file."""
        content = "".join(f"{certificate}\n" for certificate in certificates)
        self._storage.create(f"certificates-{turn:012d}.jsonl", content.encode())

    def seed(self) -> int:
        """The seed of this checkpoint's digests; drawn when it is asked for the first time."""
        if not self._storage.exists(_SEED):
            self._storage.create_new(_SEED, secrets.token_hex(8).encode())
        text = self._storage.read(_SEED)
        try:
            return int(text, 16)
        except ValueError as error:
            hint = "remove it: a new one is drawn, and snapshots that run now get no certificate"
            raise StateError(
                "the seed of the certificates is damaged", where=self._storage.location, hint=hint
            ) from error


def certificates_of(files: AnswerFiles, asked: str) -> Iterator[str]:
    """The certificates of the signals with this id or label, in the order in which they were issued.

    Raises StateError if a file is damaged: a certificate that it had may be one of them.
    """
    for name in sorted(filter(_NAME.fullmatch, files.names())):
        try:
            # A text's own `splitlines` would also part it at characters inside of strings, such as U+2028.
            lines = [line.decode() for line in files.read(name).splitlines()]
            found = [line for line in lines if asked in _names(orjson.loads(line))]
        except (ValueError, LookupError, TypeError) as error:
            hint = "restore the file, or move it away to see the certificates of the others"
            raise StateError("is damaged", where=name, hint=hint) from error
        yield from found


def _names(certificate: dict[str, Any]) -> set[str | None]:
    return {name for signal in certificate["signals"] for name in (signal["id"], signal["signal"])}
