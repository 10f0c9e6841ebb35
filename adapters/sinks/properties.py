"""The properties of the sinks `files`, `console` and `null`, and the settings that they make."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from adapters.sinks.settings import FilesSettings
from engine.config.directories import STAGING, local, staged_over
from engine.config.plugins import SinkType
from engine.config.properties.row import APPLIED, Property
from engine.config.properties.shapes import FILE_MODE, TEXT
from engine.config.sinks.every_sink import need_checkpoint

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.config.properties.values import Values

_CHECKPOINT: Final = "tidemark.checkpoint"
_DIRECTORY, _MODE = "tidemark.sink.files.dir", "tidemark.sink.files.mode"

ROWS: Final = (
    Property(_DIRECTORY, APPLIED, "directory of the sink files", TEXT),
    Property(_MODE, APPLIED, "mode of committed files, such as 0640; empty: the umask decides", FILE_MODE),
)


def read(values: Values) -> FilesSettings:
    """Compose the settings of the sink files. Its problems are added to the others."""
    need_checkpoint(values)
    values.need(_DIRECTORY, "the directory that the sink 'files' writes to")
    values.problems.extend(_overlaps(values))
    return FilesSettings(values.get(_DIRECTORY, str), values.get(_MODE, int) or None)


def _overlaps(values: Values) -> Iterator[str]:
    """The directory must be neither the checkpoint's, nor within that of the staging, nor around it."""
    events, staging = local(values, _DIRECTORY), local(values, STAGING)
    if events is None:
        return
    if events == local(values, _CHECKPOINT):
        yield f"{_CHECKPOINT!r} and {_DIRECTORY!r} are the same directory; give each its own"
    yield from staged_over(values, _DIRECTORY)
    if staging is not None and staging != events and staging.is_relative_to(events):
        yield f"{STAGING!r} lies in {_DIRECTORY!r}; give it a directory of its own"


def _nothing(_values: Values) -> None:
    """These sinks have no settings."""


FILES: Final = SinkType(ROWS, read, "adapters.source.sinks.files")
CONSOLE: Final = SinkType((), _nothing, "adapters.source.sinks.console")
NULL: Final = SinkType((), _nothing, "adapters.source.sinks.null")
