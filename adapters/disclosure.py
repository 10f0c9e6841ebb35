"""What may be repeated of errors from servers and libraries: nothing that may contain a row's value.

Servers quote what they failed on: `invalid input syntax for type integer: "…"`. An error's class decides
whether its message may be repeated; from other messages, only a few known phrases are. What is withheld is in
the server's own log.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection

_POSTGRES_WITH_VALUES: Final = frozenset({"22", "23", "2F", "38", "39", "44", "HV", "P0"})
"""SQLSTATE classes: data, constraints, messages of functions and foreign tables, PL/pgSQL's RAISE."""
_OURS: Final = re.compile(r"the reader is on snapshot [0-9:,]*")
"""What our own statements make the server say."""
_SQLSERVER_WITH_VALUES: Final = frozenset(
    (
        *(220, 232, 241, 242, 244, 245, 248, 256, 257, 293, 295, 296, 512, 517, 535, 547, 550, 1505, 1934),
        *(2601, 2627, 2628, 3606, 3609, 6355, 8114, 8115, 8117, 8134, 8152, 8169, 9803, 10_314),
    )
)
"""Conversions, arithmetic, constraints and duplicate keys: their messages quote what they failed on."""
_MONGODB_WITH_VALUES: Final = frozenset(
    {2, 9, 14, 16, 17, 40, 52, 54, 55, 66, 121, 146, 241, 291, 11_000, 11_001}
)
"""Bad values, parse failures, mismatched types, validation, conversions, failed plans, duplicate keys."""
_PLAIN_ERRORS: Final = (OSError, MemoryError, EOFError, ImportError, RecursionError)
"""Python's errors about the machine, not about data."""
_PLAIN_NAMES: Final = frozenset(
    kind.__name__ for plain in _PLAIN_ERRORS for kind in (plain, *plain.__subclasses__())
) | {"ConnectionRefusedError", "ConnectionResetError", "BrokenPipeError", "ConnectionAbortedError", "IOError"}
_PLAIN_WORDS: Final = re.compile(r"Lock request time out period exceeded")
"""The driver's messages that may be repeated if the error's number was lost in the JVM."""
_PLAIN_PACKAGES: Final = (
    "java.io.",
    "java.net.",
    "javax.net.",
    "java.nio.",
    "org.apache.spark.SparkException",
)


def postgres_message(state: str | None, message: str) -> str:
    """A server's primary message, or the kind of error."""
    if ours := _OURS.search(message):
        return ours[0]
    if state and state[:2] in _POSTGRES_WITH_VALUES:
        return f"error {state} of the server, whose message may hold values"
    return message.strip()


def condition_refused(state: str | int | None, name: str = "") -> str:
    """What is said of a condition that a server refuses: only the error's code.

    A planner quotes the literals of what it can't plan, in errors of every class, and a literal may be the
    value of a row.
    """
    code = "" if state is None else f" {state}"
    return f"error{code}{f' ({name})' if name else ''} of the server"


def sqlserver_message(number: int, message: str) -> str:
    """A server's message, or the error's number."""
    if (
        number in _SQLSERVER_WITH_VALUES
        or 9_400 <= number < 9_500
        or 13_600 <= number < 13_700
        or number >= 50_000
    ):
        return f"error {number} of the server, whose message holds values"
    return message.strip()


def mongodb_message(code: int | None, name: str, message: str) -> str:
    """A server's message, or the name of its code; codes with many digits are assertions about values."""
    if code is not None and (code in _MONGODB_WITH_VALUES or code >= 10_000) and code not in _MONGODB_STATES:
        return f"error {code}{f' ({name})' if name else ''} of the server, whose message may hold values"
    return message.strip()


_MONGODB_STATES: Final = frozenset({10_058, 10_107, 11_600, 11_602, 13_388, 13_435, 13_436})
"""Codes of the same length that are about the server's own state."""


def python_message(name: str, message: str, ours: Collection[str]) -> str:
    """An exception's message if it is one of `ours` or about the machine, else its class."""
    short = name.rpartition(".")[2]
    if short in ours or short in _PLAIN_NAMES:
        return f"{name}: {message}" if message else name
    return name


def java_message(name: str, message: str) -> str:
    """A JVM exception's message if it is about the machine or Spark, else its class."""
    if name.startswith(_PLAIN_PACKAGES) and message:
        return f"{name}: {message}"
    if plain := _PLAIN_WORDS.search(message):
        return f"{name}: {plain[0]}"
    return name
