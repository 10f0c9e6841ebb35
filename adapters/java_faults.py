"""What the JVM has thrown, as values: the exceptions behind an error of PySpark, with classes and codes.

PySpark's errors are pages of text, and have a reference to the exception in the JVM. The cause of a failed
job's exception is that of the failed task, so what a JDBC driver has thrown there is found as data:

    org.apache.spark.SparkException
      └─ org.postgresql.util.PSQLException    state 08S01, number 0

What follows from a fault is decided by those who ask.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # it ships no types

if TYPE_CHECKING:
    from collections.abc import Sequence

_FAILS: Final = (Py4JError, OSError, EOFError)
"""What a call into the JVM raises if the JVM is gone, or the object lacks the method."""
_DEEPEST: Final = 20
_FORWARDED: Final = "org.apache.hadoop.ipc.RemoteException"
"""Hadoop's exception for one that a server threw. It has the name of the server's class."""


@dataclass(frozen=True, slots=True)
class JavaFault:
    """An exception of the JVM: the name of its class, its message, and Spark's name for the condition.

    `state` is an SQLSTATE, `number` a database's error number. Only exceptions of JDBC drivers have them.
    """

    name: str
    message: str = ""
    condition: str = ""
    state: str = ""
    number: int | None = None


def java_faults(error: BaseException) -> Sequence[JavaFault]:
    """The exception that an error of PySpark stands for, and its causes.

    If the JVM is gone, those that can't be asked any more are left out.
    """
    found: list[JavaFault] = []
    cause = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    with suppress(*_FAILS):
        while cause is not None and len(found) < _DEEPEST:
            found.append(_told(cause))
            cause = cause.getCause()
    return found


def _told(thrown: Any) -> JavaFault:
    name = str(thrown.getClass().getName())
    if name == _FORWARDED:
        name = str(thrown.getClassName())
    number = _asked(thrown, "getErrorCode")  # a text in exceptions that are not JDBC's
    return JavaFault(
        name,
        str(thrown.getMessage() or ""),
        str(_asked(thrown, "getCondition") or ""),
        str(_asked(thrown, "getSQLState") or ""),
        number if isinstance(number, int) else None,
    )


def _asked(thrown: Any, method: str) -> Any:
    """What a method returns; None if the exception's class does not have it."""
    with suppress(*_FAILS):
        return getattr(thrown, method)()
    return None
