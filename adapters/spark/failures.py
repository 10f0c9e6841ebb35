"""What a failed Spark job says, as one line and one of our errors.

Spark wraps what happened in pages of stack traces, and py4j has exceptions of its own for a JVM that
is gone. Owns telling which line is worth keeping; whoever ran the job says what it was for.
"""

from __future__ import annotations

import re

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # it ships no types
from pyspark.errors import PySparkException

from engine.errors import SinkError, SourceError

SPARK_ERRORS = (Py4JError, PySparkException, OSError, EOFError)
"""What PySpark raises for a failed job or task, and for a JVM or a worker that is gone."""

_TELLING = re.compile(r"ERROR:|FATAL:|^[\w.]*(Error|Exception|Lost|Changed): ")
_SINK_ERROR = re.compile(rf"\b{SinkError.__module__}\.{SinkError.__name__}: (.*)")
_WRAPPING = re.compile(r"ERROR:|FATAL:|(Error|Exception|Lost|Changed): ")


def job_error(error: Exception, what: str, place: str = "spark") -> SourceError | SinkError:
    """`what` failed, with the telling line of Spark's error; a SinkError of a task's is one here, too."""
    if told := _SINK_ERROR.search(_text(error)):
        return SinkError(told[1].strip())
    return SourceError(f"{what} failed: {telling_line(error)}", place=place)


def telling_line(error: Exception) -> str:
    """The first line in which the server or a task speaks; else Spark's own, else the first one."""
    lines = [line.strip() for line in _text(error).splitlines() if line.strip()]
    for pattern in (_TELLING, _WRAPPING):
        lines = [line for line in lines if pattern.search(line)] or lines
    said = lines[0].lstrip(": ") if lines else type(error).__name__
    return said[:500]


def _text(error: Exception) -> str:
    try:
        return str(error)
    except SPARK_ERRORS:  # the text is the JVM's, which may be gone
        return ""
