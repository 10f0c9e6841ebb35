"""How the job's log is written: a line for people, or a JSON object a line for programs."""

from __future__ import annotations

import logging
import sys
import time
from enum import StrEnum
from typing import Any, Final, TextIO

import orjson

from adapters.system import RUNNING
from engine.printable import printable

_TEXT: Final = "%(asctime)s %(levelname)-7s %(name)s: %(job)s%(message)s"


class LogFormat(StrEnum):
    """`--log-format`."""

    TEXT = "text"
    JSON = "json"


class TextLines(logging.Formatter):
    """Writes a message as one line: names and keys in it are anybody's, and could look like other messages.

    Tracebacks keep their lines.
    """

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  the standard library's name
        """The line, with control characters escaped; it begins with the job if the process runs several."""
        record.job = f"{RUNNING.get()}: " if RUNNING.get() else ""
        return printable(super().formatMessage(record))


class JsonLines(logging.Formatter):
    """One object a line: `at` in UTC, `level`, `logger`, `message`.

    There is `job` if the process runs several, and `traceback` where there is one.
    """

    def format(self, record: logging.LogRecord) -> str:
        """The record as a JSON object."""
        seconds = time.gmtime(record.created)
        fields: dict[str, Any] = {
            "at": f"{time.strftime('%Y-%m-%dT%H:%M:%S', seconds)}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if RUNNING.get():
            fields["job"] = RUNNING.get()
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        return orjson.dumps(fields, default=str).decode("utf-8", "replace")


class StderrHandler(logging.StreamHandler[TextIO]):
    """Writes to whatever stderr is at that moment: bars that are drawn there take its place."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> TextIO:  # type: ignore[override]  # the standard library's is an attribute
        """Stderr."""
        return sys.stderr


def set_up_logging(*, verbose: bool, form: LogFormat = LogFormat.TEXT) -> None:
    """Log to stderr in one format. py4j is silenced: it logs every call, and failures are raised anyway."""
    handler = StderrHandler()
    handler.setFormatter(JsonLines() if form is LogFormat.JSON else TextLines(_TEXT))
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    logging.getLogger().addFilter(_not_py4j)
    for name in ("engine", "signals", "adapters"):
        logging.getLogger(name).setLevel(logging.DEBUG if verbose else logging.INFO)
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    logging.getLogger("pyspark").setLevel(logging.WARNING)


def _not_py4j(record: logging.LogRecord) -> bool:
    """Filter out py4j's records among those of the root logger."""
    return record.module not in {"java_gateway", "clientserver"}
