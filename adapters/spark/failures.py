"""Turns a failed Spark job into one line and one of our errors.

Spark wraps what happened in pages of stack traces, and py4j has its own exceptions for a JVM that is gone.
This module picks the line worth keeping; `disclosure` decides how much of it may be repeated.
"""

from __future__ import annotations

import inspect
import re
import threading
from typing import TYPE_CHECKING, Final

from adapters.disclosure import java_message, postgres_message, python_message, sqlserver_message
from adapters.java_faults import java_faults
from adapters.spark.exceptions import SPARK_ERRORS
from engine import errors
from engine.config.text.refusals import note_refusal
from engine.errors import ExecutorsFailed, LoginRefused, SourceError, TidemarkError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adapters.java_faults import JavaFault
    from engine.model import CollectionId

_TRACEBACK: Final = "Traceback (most recent call last)"
_RAISED = re.compile(r"^\s*(?:Caused by: )?(?P<name>[A-Za-z_][\w.]*)(?:: (?P<said>.*))?$")
_JAVA = re.compile(r"(?P<name>(?:[a-z]\w*\.)+[A-Z][\w$]*(?:Exception|Error)): (?P<said>.*)")
_POSTGRES: Final = "org.postgresql."
_SQL_SERVER: Final = "com.microsoft.sqlserver."
_INVALID_AUTHORIZATION: Final = "28"
"""PostgreSQL's SQLSTATE class."""
_LOGIN_FAILED: Final = 18456
"""SQL Server's error number."""
_OWN_ERRORS: Final = frozenset(name for name, kind in inspect.getmembers(errors, inspect.isclass))
_LONGEST: Final = 500
_NO_MEMORY: Final = frozenset({"java.lang.OutOfMemoryError", "org.apache.spark.memory.SparkOutOfMemoryError"})
MORE_MEMORY: Final = (
    "give Spark more memory: tidemark.spark.conf.spark.driver.memory, or spark.executor.memory on a cluster"
)
_ran_out = threading.Event()


def job_error(error: Exception, what: str, where: CollectionId | str = "spark") -> TidemarkError:
    """The error for a failed `what`, with the decisive line of Spark's error. Ours stay as they are."""
    if isinstance(error, TidemarkError):
        return error
    faults = java_faults(error)
    said = f"{what} failed: {_line(error, faults)}"
    if _login_was_refused(faults):
        note_refusal()
        return LoginRefused(said, where=where)
    if any(fault.name in _NO_MEMORY for fault in faults):
        _ran_out.set()
        return SourceError(said, where=where, hint=MORE_MEMORY)
    return SourceError(said, where=where)


def ran_out_of_memory() -> bool:
    """Whether a job of this process failed for lack of memory. Spark then ends its JVM a moment later."""
    return _ran_out.is_set()


def of_executors(error: Exception, what: str) -> TidemarkError:
    """The error of a job that asks no server through Spark, so that a failure is one of its executors."""
    found = job_error(error, what)
    return found.recast(ExecutorsFailed) if type(found) is SourceError else found


def telling_line(error: Exception) -> str:
    """The message of the server, of the task, or else of Spark. Nothing that may contain a row's value."""
    return _line(error, java_faults(error))


def _line(error: Exception, faults: Sequence[JavaFault]) -> str:
    said = _of_the_driver(faults) or _of_a_task(error) or _of_the_jvm(error)
    return said[:_LONGEST]


def _of_the_driver(faults: Sequence[JavaFault]) -> str:
    """The error of the database's JDBC driver, if it failed."""
    for fault in faults:
        first = next(iter(fault.message.splitlines()), "")
        if fault.name.startswith(_POSTGRES):
            return postgres_message(fault.state, first)
        if fault.name.startswith(_SQL_SERVER) and fault.number is not None:
            return sqlserver_message(fault.number, first)
    return ""


def _login_was_refused(faults: Sequence[JavaFault]) -> bool:
    """Whether the server refused the JDBC driver's login."""
    for fault in faults:
        if fault.name.startswith(_POSTGRES):
            return fault.state.startswith(_INVALID_AUTHORIZATION)
        if fault.name.startswith(_SQL_SERVER) and fault.number is not None:
            return fault.number == _LOGIN_FAILED
    return False


def _of_a_task(error: Exception) -> str:
    """What a Python task raised, or the driver itself where it does a task's work."""
    if not isinstance(error, SPARK_ERRORS):
        return python_message(type(error).__name__, str(error), _OWN_ERRORS)
    text = _text(error)
    if _TRACEBACK not in text:
        return ""
    raised = [
        found
        for line in text[text.rindex(_TRACEBACK) :].splitlines()[1:]
        if (found := _RAISED.match(line)) and not line.startswith(("  ", "\t"))
    ]
    return python_message(raised[0]["name"], raised[0]["said"] or "", _OWN_ERRORS) if raised else ""


def _of_the_jvm(error: Exception) -> str:
    """Spark's own message, without the message of an exception that it quotes."""
    lines = [line.strip() for line in _text(error).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    for line in lines:
        if found := [*_JAVA.finditer(line)]:
            return _quoted(found)
    return lines[0].lstrip(": ")


def _quoted(found: list[re.Match[str]]) -> str:
    """The first exception of a line, and the one that its message ends with."""
    name, said = found[0]["name"], found[0]["said"]
    inner = _JAVA.search(said)
    if inner is None:
        return java_message(name, said)
    return java_message(name, said[: inner.start()] + java_message(inner["name"], inner["said"]))


def _text(error: Exception) -> str:
    try:
        return str(error)
    except SPARK_ERRORS:  # the text is in the JVM, which may be gone
        return ""
