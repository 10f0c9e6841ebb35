"""A directory of small files on any storage that Hadoop supports, each written whole or not at all.

On `file:` only the owner may read the files.

`file:` is written with system calls. Through Hadoop each file there costs a process (`chmod`) and a dozen
calls into the JVM: 8 ms on an idle machine, where system calls take 0.5 ms. Everything else goes through the
JVM.

A file is written under a unique name and then renamed. Where renaming means copying (object stores), it is
created under its real name; there a file appears at once or not at all.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped] # ships no types
from pyspark.errors import PySparkException

from adapters.java_faults import java_faults
from adapters.storage.disk import force_directory, make_private, open_private
from engine.errors import StateError, StateNotSaved
from engine.staging.writing import write_all

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from adapters.java_faults import JavaFault

_OBJECT_STORES: Final = frozenset({"s3", "s3a", "s3n", "gs", "oss", "cosn", "obs", "wasb", "wasbs"})
_HINT: Final = "check that the storage is there and writable"
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_FULL_CLASS: Final = "QuotaExceededException"
"""How the names of HDFS's exceptions for a quota end."""
_FULL_WORDS: Final = ("No space left on device", "Disk quota exceeded")
"""What the system says for these numbers. Java's IOException has only its words (seen in Java 17)."""
_FULL_HINT: Final = "free some space; nothing is lost meanwhile"
_THERE: Final = "FileAlreadyExistsException"
"""Hadoop and Java each have a class of this name."""
_PARTIAL: Final = re.compile(r"\.(.+)\.[0-9a-f]{32}\.partial")


class Storage(Protocol):
    """One directory.

    What is created or renamed survives a crash of the machine. All methods raise StateError.
    """

    @property
    def location(self) -> str:
        """The directory, for people."""

    def names(self) -> list[str]:
        """All files, in no order."""

    def read(self, name: str) -> bytes:
        """A file's content."""

    def create(self, name: str, content: bytes, *, forced: bool = True) -> None:
        """Write a file, replacing one with the same name. If not `forced`, a power failure may undo it."""

    def create_new(self, name: str, content: bytes) -> bool:
        """Write a file unless one with this name exists; of several concurrent attempts one succeeds."""

    def refresh(self, name: str, content: bytes) -> None:
        """Give a file that has this content another stamp; the stamp need not survive a crash."""

    def stamp(self, name: str) -> str:
        """A value that changes with each `create` and `refresh` of a file."""

    def rename(self, source: str, target: str, *, forced: bool = True) -> None:
        """Rename a file, replacing one with the new name. If not `forced`, a power failure may undo it.

        What is forced later in the same directory includes it.
        """

    def delete(self, name: str) -> None:
        """Remove a file, if it exists."""

    def exists(self, name: str) -> bool:
        """Whether a file exists."""


def storage(spark: SparkSession, directory: str) -> Storage:
    """The directory (a URI or path as Hadoop understands it), created if missing. Raises StateError."""
    path_type, configuration = _hadoop(spark)
    with failing(directory):
        root = path_type(directory)
        system = root.getFileSystem(configuration)
        scheme = system.getScheme()
        root = system.makeQualified(root)
    if scheme == "file":
        return LocalStorage(Path(root.toUri().getPath()))
    return HadoopStorage(system, path_type, root, renames=scheme not in _OBJECT_STORES)


def partial_of(name: str) -> str | None:
    """The name that a file would have got once complete; None if this is not a half-written file."""
    match = _PARTIAL.fullmatch(name)
    return match[1] if match else None


def _partial(name: str) -> str:
    return f".{name}.{uuid.uuid4().hex}.partial"


class LocalStorage:
    """A directory on this machine."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.location = str(root)
        with failing(self.location):
            make_private(root)

    def names(self) -> list[str]:
        """List the files in it."""
        with failing(self.location):
            return os.listdir(self._root)  # noqa: PTH208  a directory of events has many entries

    def read(self, name: str) -> bytes:
        """Read a file."""
        with self._failing(name):
            return (self._root / name).read_bytes()

    def create(self, name: str, content: bytes, *, forced: bool = True) -> None:
        """Write under another name, then rename."""
        with self._written(name, content, forced=forced) as partial:
            self._renamed(partial.name, name, forced=forced)

    def create_new(self, name: str, content: bytes) -> bool:
        """Write under another name, then link: that fails if the name exists."""
        with self._written(name, content, forced=True) as partial, self._failing(name):
            try:
                (self._root / name).hardlink_to(partial)
            except FileExistsError:
                return False
            force_directory(self._root)
        return True

    @contextlib.contextmanager
    def _written(self, name: str, content: bytes, *, forced: bool) -> Iterator[Path]:
        """Yield a file with this content under another name, and remove it afterwards."""
        partial = self._root / _partial(name)
        try:
            with self._failing(name), open_private(partial) as file:
                write_all(file, memoryview(content))
                if forced:
                    os.fsync(file.fileno())
            yield partial
        finally:
            with contextlib.suppress(OSError):
                partial.unlink(missing_ok=True)

    def refresh(self, name: str, content: bytes) -> None:  # noqa: ARG002  it has the content
        """Set the file's times."""
        with self._failing(name):
            os.utime(self._root / name)

    def stamp(self, name: str) -> str:
        """The file's inode and modification time."""
        with self._failing(name):
            found = (self._root / name).stat()
        return f"{found.st_ino} {found.st_mtime_ns}"

    def rename(self, source: str, target: str, *, forced: bool = True) -> None:
        """Rename, and force the directory to disk."""
        self._renamed(source, target, forced=forced)

    def _renamed(self, source: str, target: str, *, forced: bool) -> None:
        with self._failing(target):
            (self._root / source).replace(self._root / target)
            if forced:
                force_directory(self._root)

    def delete(self, name: str) -> None:
        """Remove a file, if it exists."""
        with self._failing(name):
            (self._root / name).unlink(missing_ok=True)

    def exists(self, name: str) -> bool:
        """Whether a file exists. Raises StateError if the directory does not."""
        with self._failing(name):
            try:
                (self._root / name).stat()
            except FileNotFoundError:
                self._root.stat()
                return False
            return True

    def _failing(self, name: str) -> contextlib.AbstractContextManager[None]:
        return failing(f"{self.location}/{name}")


class HadoopStorage:
    """A directory on one of Hadoop's file systems. `renames`: it renames atomically; object stores copy."""

    def __init__(self, system: Any, path_type: Any, root: Any, *, renames: bool) -> None:
        self._system, self._path_type, self._root, self._renames = system, path_type, root, renames
        self.location = str(root.toString())
        with failing(self.location):
            system.mkdirs(root)

    def names(self) -> list[str]:
        """List the files in it."""
        with failing(self.location):
            return [status.getPath().getName() for status in self._system.listStatus(self._root)]

    def read(self, name: str) -> bytes:
        """Read a file."""
        with self._failing(name):
            stream = self._system.open(self._path(name))
            try:
                return bytes(stream.readAllBytes())
            finally:
                stream.close()

    def create(self, name: str, content: bytes, *, forced: bool = True) -> None:  # noqa: ARG002  always forced
        """Write under another name and rename; on an object store, write under the real name."""
        if self._renames:
            partial = _partial(name)
            self._write(partial, content)
            self.rename(partial, name)
            return
        with self._failing(name):
            stream = self._system.create(self._path(name), True)  # noqa: FBT003 - the JVM has no keywords
            # Closing makes the object appear, so it must not be closed after a failed write.
            stream.write(bytearray(content))
            stream.close()

    def create_new(self, name: str, content: bytes) -> bool:
        """Write a file unless one with this name exists.

        On an object store, two attempts at the same moment may both succeed.
        """
        if self.exists(name):
            return False
        if not self._renames:
            self.create(name, content)
            return True
        try:
            self._write(name, content)
        except FileThere:
            return False
        return True

    def refresh(self, name: str, content: bytes) -> None:
        """Set the file's time; on an object store, write it again."""
        if not self._renames:
            self.create(name, content)
            return
        with self._failing(name):
            self._system.setTimes(self._path(name), int(time.time() * 1000), -1)

    def stamp(self, name: str) -> str:
        """The file's modification time and length."""
        with self._failing(name):
            status = self._system.getFileStatus(self._path(name))
            return f"{status.getModificationTime()} {status.getLen()}"

    def rename(self, source: str, target: str, *, forced: bool = True) -> None:  # noqa: ARG002  always forced
        """Rename, replacing the target even where the file system does not."""
        with self._failing(target):
            if self._system.rename(self._path(source), self._path(target)):
                return
            # HDFS does not replace. The target is a state of the same turn which had not been sent, or one
            # that another job has promoted; that job has removed the source before.
            if self.exists(source):
                self.delete(target)
            if not self._system.rename(self._path(source), self._path(target)):
                raise StateError(f"can't be renamed from {source!r}", where=f"{self.location}/{target}")

    def delete(self, name: str) -> None:
        """Remove a file, if it exists."""
        with self._failing(name):
            self._system.delete(self._path(name), False)  # noqa: FBT003 - the JVM has no keywords

    def exists(self, name: str) -> bool:
        """Whether a file exists."""
        with self._failing(name):
            return bool(self._system.exists(self._path(name)))

    def _write(self, name: str, content: bytes) -> None:
        with self._failing(name):
            stream = self._system.create(self._path(name), False)  # noqa: FBT003 - the JVM has no keywords
        try:
            with self._failing(name):
                stream.write(bytearray(content))
                stream.hsync()
                stream.close()
        except StateError:
            with contextlib.suppress(StateError), self._failing(name):
                stream.close()
            with contextlib.suppress(StateError):
                self.delete(name)
            raise

    def _path(self, name: str) -> Any:
        return self._path_type(self._root, name)

    def _failing(self, name: str) -> contextlib.AbstractContextManager[None]:
        return failing(f"{self.location}/{name}")


class FileThere(StateError):
    """A file that should be new exists already."""


@contextlib.contextmanager
def failing(where: str) -> Iterator[None]:
    """Turn errors of the JVM and the system into a StateError about one file."""
    try:
        yield
    except Py4JJavaError as exc:
        reason = str(exc.java_exception.toString()).splitlines()[0]
        raise _failed(exc, reason, where) from exc
    except PySparkException as exc:
        # PySpark replaces some of Java's exceptions by its own.
        raise _failed(exc, str(exc).splitlines()[0], where) from exc
    except OSError as exc:
        if exc.errno in _FULL:
            raise StateNotSaved(str(exc.strerror), where=where, hint=_FULL_HINT) from exc
        raise StateError(exc.strerror or str(exc), where=where, hint=_HINT) from exc
    except Py4JError as exc:
        raise StateError(f"the storage can't be reached: {exc}", where=where, hint=_HINT) from exc


def _failed(error: Exception, reason: str, where: str) -> StateError:
    faults = java_faults(error)
    if any(_is_full(fault) for fault in faults):
        return StateNotSaved(reason, where=where, hint=_FULL_HINT)
    if any(fault.name.endswith(_THERE) for fault in faults):
        return FileThere(reason, where=where)
    return StateError(reason, where=where, hint=_HINT)


def _is_full(fault: JavaFault) -> bool:
    return fault.name.endswith(_FULL_CLASS) or any(words in fault.message for words in _FULL_WORDS)


def _hadoop(spark: Any) -> tuple[Any, Any]:
    """Hadoop's Path class and Spark's Hadoop configuration, in the JVM.

    PySpark has no public access to these; its own sources use the same attributes.
    """
    return spark._jvm.org.apache.hadoop.fs.Path, spark._jsc.hadoopConfiguration()  # noqa: SLF001
