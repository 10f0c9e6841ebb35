"""The state store: one JSON file per turn, through Hadoop's file system API.

Owns the files of a checkpoint directory, be it on `file:`, `hdfs:` or `s3a:`, and how a half-written
or damaged one is told from a state. What the document says is `engine.state`'s affair.

    turn-000000000042.json            promoted; the last five are kept
    turn-000000000043.pending.json    saved before turn 43 was sent
    .turn-….<unique>.partial          being written, or left by a crash: never read, removed by load

A file is one JSON object, `{"turn":…,"bytes":…,"sha256":"…","state":<the document>}`. Its length
and checksum cover the document's bytes, so what was cut short or edited by hand is refused.

A file is written under a name of its own and renamed; where renaming is copying (object stores), it
is created under its real name, which there happens at once or not at all. On `file:` the raw local
file system is used, without checksum files beside ours, and the directory is forced to disk.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import uuid
from typing import TYPE_CHECKING, Any, Final

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped] # ships no types
from pyspark.errors import PySparkException

from engine.errors import InvariantError, StateError
from engine.ports import SavedState, SavedStates

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

KEPT: Final = 5
"""Promoted states kept; all but the newest are for people."""

_OBJECT_STORES: Final = frozenset({"s3", "s3a", "s3n", "gs", "oss", "cosn", "obs", "wasb", "wasbs"})
_HINT: Final = "check that the checkpoint's storage is there and writable"
_NAME: Final = re.compile(r"turn-(\d{12,})(\.pending)?\.json")
_PARTIAL: Final = re.compile(r"\.turn-\d{12,}(\.pending)?\.json\.[0-9a-f]{32}\.partial")
_HEAD: Final = re.compile(rb'\{"turn":(\d+),"bytes":(\d+),"sha256":"([0-9a-f]{64})","state":')
_TAIL: Final = b"}\n"


class HadoopStateStore:
    """Keeps states in `directory`, a URI or a path that Hadoop understands; made if missing."""

    def __init__(self, spark: SparkSession, directory: str) -> None:
        self._path_type, configuration = _hadoop(spark)
        self._promoted: list[int] | None = None
        self._place = directory
        with self._failing(directory):
            self._root = self._path_type(directory)
            system = self._root.getFileSystem(configuration)
            self._scheme = system.getScheme()
            self._system = system.getRawFileSystem() if self._scheme == "file" else system
            self._root = self._system.makeQualified(self._root)
            self._place = self._root.toString()
            self._system.mkdirs(self._root)

    def load(self) -> SavedStates:
        """Read the newest promoted state, and a pending one that is newer; see the port."""
        promoted, pending = self._list(remove_partial=True)
        self._promoted = promoted
        newest = promoted[-1] if promoted else -1
        for turn in [turn for turn in pending if turn <= newest]:
            # Copied and not yet deleted when the process died: on an object store, a rename is both.
            self._delete(_name(turn, pending=True))
        ahead = pending[-1:] if pending and pending[-1] > newest else []
        return SavedStates(
            promoted=self._read(newest, pending=False) if promoted else None,
            pending=self._read(ahead[0], pending=True) if ahead else None,
        )

    def save_pending(self, turn: int, document: bytes) -> None:
        """Write the document, whole or not at all; see the port."""
        name = _name(turn, pending=True)
        content = _sealed(turn, document)
        if self._scheme in _OBJECT_STORES:
            self._create(name, content, overwrite=True)
            return
        partial = f".{name}.{uuid.uuid4().hex}.partial"
        self._create(partial, content, overwrite=False)
        self._rename(partial, name)

    def promote(self, turn: int) -> None:
        """Rename the pending state; see the port."""
        source, target = _name(turn, pending=True), _name(turn, pending=False)
        promoted = self._known_promoted()
        if turn in promoted:
            return
        if not self._exists(source):
            raise InvariantError(f"state of turn {turn} is promoted without having been saved")
        self._rename(source, target)
        self._promoted = sorted([*promoted, turn])
        for old in self._promoted[:-KEPT]:
            self._delete(_name(old, pending=False))
        self._promoted = self._promoted[-KEPT:]

    def discard(self, turn: int) -> None:
        """Delete the pending state; see the port."""
        self._delete(_name(turn, pending=True))

    def _known_promoted(self) -> list[int]:
        if self._promoted is None:
            self._promoted = self._list(remove_partial=False)[0]
        return self._promoted

    def _list(self, *, remove_partial: bool) -> tuple[list[int], list[int]]:
        """The turns promoted and pending, in order; files that are not ours are passed over."""
        with self._failing(self._place):
            names = [status.getPath().getName() for status in self._system.listStatus(self._root)]
        if remove_partial:
            for name in filter(_PARTIAL.fullmatch, names):
                self._delete(name)
        found = [match for match in map(_NAME.fullmatch, names) if match]
        promoted = sorted(int(match[1]) for match in found if not match[2])
        return promoted, sorted(int(match[1]) for match in found if match[2])

    def _read(self, turn: int, *, pending: bool) -> SavedState:
        name = _name(turn, pending=pending)
        with self._failing(name):
            stream = self._system.open(self._path(name))
            try:
                content = bytes(stream.readAllBytes())
            finally:
                stream.close()
        return _opened(turn, content, place=self._described(name))

    def _create(self, name: str, content: bytes, *, overwrite: bool) -> None:
        with self._failing(name):
            stream = self._system.create(self._path(name), overwrite)
        if self._scheme in _OBJECT_STORES:
            # Closing is what makes the object appear, so after a failed write it must not happen.
            with self._failing(name):
                stream.write(bytearray(content))
                stream.close()
            return
        try:
            with self._failing(name):
                stream.write(bytearray(content))
                stream.hsync()
                stream.close()
        except StateError:
            with contextlib.suppress(StateError), self._failing(name):
                stream.close()
            with contextlib.suppress(StateError):
                self._delete(name)
            raise

    def _rename(self, source: str, target: str) -> None:
        with self._failing(target):
            if self._system.rename(self._path(source), self._path(target)):
                self._force()
                return
            # HDFS does not replace. What stood here was this turn's too, and had not been sent.
            self._delete(target)
            if not self._system.rename(self._path(source), self._path(target)):
                raise StateError(f"can't be renamed from {source!r}", place=self._described(target))
            self._force()

    def _delete(self, name: str) -> None:
        with self._failing(name):
            self._system.delete(self._path(name), False)  # noqa: FBT003 - the JVM has no keywords

    def _exists(self, name: str) -> bool:
        with self._failing(name):
            return bool(self._system.exists(self._path(name)))

    def _force(self) -> None:
        """Force the names to disk where Hadoop has no way to: on the local file system."""
        if self._scheme != "file":
            return
        descriptor = os.open(self._root.toUri().getPath(), os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _path(self, name: str) -> Any:
        return self._path_type(self._root, name)

    def _described(self, name: str) -> str:
        return name if name == self._place else f"{self._place}/{name}"

    @contextlib.contextmanager
    def _failing(self, name: str) -> Iterator[None]:
        """Turn the JVM's errors, and the system's, into a StateError about one file."""
        try:
            yield
        except Py4JJavaError as exc:
            reason = str(exc.java_exception.toString()).splitlines()[0]
            raise StateError(reason, place=self._described(name), hint=_HINT) from exc
        except PySparkException as exc:
            # PySpark puts exceptions of its own in the place of some of Java's.
            raise StateError(str(exc).splitlines()[0], place=self._described(name), hint=_HINT) from exc
        except (Py4JError, OSError) as exc:
            reason = f"the storage can't be reached: {exc}"
            raise StateError(reason, place=self._described(name), hint=_HINT) from exc


def _hadoop(spark: Any) -> tuple[Any, Any]:
    """Hadoop's Path class and Spark's Hadoop configuration, in the JVM.

    PySpark has no public way there; its own sources use the same attributes.
    """
    return spark._jvm.org.apache.hadoop.fs.Path, spark._jsc.hadoopConfiguration()  # noqa: SLF001


def _name(turn: int, *, pending: bool) -> str:
    return f"turn-{turn:012d}{'.pending' if pending else ''}.json"


def _sealed(turn: int, document: bytes) -> bytes:
    digest = hashlib.sha256(document).hexdigest()
    head = f'{{"turn":{turn},"bytes":{len(document)},"sha256":"{digest}","state":'
    return head.encode("ascii") + document + _TAIL


def _opened(turn: int, content: bytes, *, place: str) -> SavedState:
    """Take the document out of a file's content; StateError unless it is exactly what was saved."""
    hint = "restore the file, or move it away to go on from the state before it"
    head = _HEAD.match(content)
    if head is None:
        raise StateError("holds no saved state", place=place, hint=hint)
    document = content[head.end() : -len(_TAIL)]
    whole = content.endswith(_TAIL) and len(document) == int(head[2])
    if not whole or hashlib.sha256(document).hexdigest().encode("ascii") != head[3]:
        raise StateError("is damaged: its length or checksum is wrong", place=place, hint=hint)
    if int(head[1]) != turn:
        raise StateError(f"holds the state of turn {int(head[1])}", place=place, hint=hint)
    return SavedState(turn, document)
