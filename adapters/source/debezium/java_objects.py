"""Reads the few Java objects that Debezium serialises: keys of rows, and the map of a file of offsets. Pure.

No class is loaded and nothing is called. The bytes are walked by Java's "Object Serialization Stream
Protocol", version 5, for these classes alone; anything else is refused by name.

    Object[] of Boolean, Byte, Short, Integer, Long, String and null      the key of a row
    HashMap<byte[], byte[]>                                                Kafka Connect's file of offsets
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

MAGIC: Final = b"\xac\xed\x00\x05"
MOST_BYTES: Final = 64 << 20
_MOST_ITEMS: Final = 1_000_000
_DEEPEST: Final = 8
_NULL, _REFERENCE, _CLASS, _OBJECT, _STRING, _ARRAY = 0x70, 0x71, 0x72, 0x73, 0x74, 0x75
_BLOCK, _END, _LONG_STRING = 0x77, 0x78, 0x7C
_FIRST_HANDLE: Final = 0x7E0000
_WRITES_MORE: Final = 0x02
"""A class's flag: it was serialised by a method of its own."""
_NUMBERS: Final = {
    "java.lang.Boolean": ">?",
    "java.lang.Byte": ">b",
    "java.lang.Short": ">h",
    "java.lang.Integer": ">i",
    "java.lang.Long": ">q",
}
_PRIMITIVES: Final = {"B": ">b", "Z": ">?", "S": ">h", "I": ">i", "J": ">q", "F": ">f", "D": ">d"}


class UnknownObject(ValueError):
    """The bytes hold something else; the message names it."""


class _Class:
    """A class by its name, with its own fields and its superclass."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.flags = 0
        self.fields: list[tuple[str, str]] = []
        self.parent: _Class | None = None


def read_key(data: bytes) -> tuple[object, ...] | None:
    """The values of a serialised Object[]; None for a serialised null. Raises UnknownObject."""
    found = _read(data)
    if found is not None and not isinstance(found, tuple):
        raise UnknownObject("not an array of a key's values")
    return found


def read_map(data: bytes) -> dict[bytes, bytes | None]:
    """The entries of a serialised HashMap<byte[], byte[]>. Raises UnknownObject."""
    found = _read(data)
    if not isinstance(found, dict):
        raise UnknownObject("not a HashMap")
    for key, value in found.items():
        if not isinstance(key, bytes) or not isinstance(value, bytes | None):
            raise UnknownObject("a HashMap of something else than bytes")
    return found


def _read(data: bytes) -> object:
    if len(data) > MOST_BYTES:
        raise UnknownObject(f"{len(data)} bytes, at most {MOST_BYTES} are read")
    if not data.startswith(MAGIC):
        raise UnknownObject("no serialised Java object")
    try:
        return _Stream(data).content(0)
    except (struct.error, UnicodeDecodeError, IndexError) as error:
        raise UnknownObject("a serialised object that is damaged or cut off") from error


class _Stream:
    """The bytes, and what later ones may refer to."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, len(MAGIC)
        self._handles: list[object] = []

    def content(self, depth: int) -> object:
        """The next object."""
        if depth > _DEEPEST:
            raise UnknownObject("objects that are nested too deeply")
        tag = self._byte()
        readers: dict[int, Callable[[], object]] = {
            _NULL: lambda: None,
            _REFERENCE: self._referred,
            _STRING: lambda: self._string(">H"),
            _LONG_STRING: lambda: self._string(">q"),
            _ARRAY: lambda: self._array(depth),
            _OBJECT: lambda: self._object(depth),
        }
        if tag not in readers:
            raise UnknownObject(f"an element of the kind 0x{tag:02x}")
        return readers[tag]()

    def _array(self, depth: int) -> object:
        kind = self._class()
        handle = self._handle(None)
        size = self._number(">i")
        if not 0 <= size <= len(self._data) - self._at:
            raise UnknownObject("an array that is longer than its stream")
        if kind.name == "[B":
            found: object = self._take(size)
        elif kind.name == "[Ljava.lang.Object;":
            found = tuple(self.content(depth + 1) for _item in range(size))
        else:
            raise UnknownObject(f"an array of {kind.name!r}")
        self._handles[handle] = found
        return found

    def _object(self, depth: int) -> object:
        kind = self._class()
        handle = self._handle(None)
        if kind.name == "java.util.HashMap":
            found: object = self._map(kind, depth)
        elif kind.name in _NUMBERS:
            found = self._boxed(kind)
        else:
            raise UnknownObject(f"an object of {kind.name!r}")
        self._handles[handle] = found
        return found

    def _boxed(self, kind: _Class) -> object:
        """The value of a number's only field; its superclass Number has none."""
        values = self._fields(kind)
        if len(values) != 1:
            raise UnknownObject(f"an object of {kind.name!r} in another form")
        return values[0]

    def _map(self, kind: _Class, depth: int) -> dict[object, object]:
        if not kind.flags & _WRITES_MORE or kind.parent is not None:
            raise UnknownObject("a HashMap in another form")
        self._fields(kind)
        if self._take(2) != bytes([_BLOCK, 8]):
            raise UnknownObject("a HashMap in another form")
        _buckets, size = self._number(">i"), self._number(">i")
        if not 0 <= size <= _MOST_ITEMS:
            raise UnknownObject(f"a HashMap of {size} entries")
        found: dict[object, object] = {}
        for _entry in range(size):
            key = self.content(depth + 1)
            found[key] = self.content(depth + 1)
        if self._byte() != _END:
            raise UnknownObject("a HashMap that does not end")
        return found

    def _fields(self, kind: _Class) -> list[Any]:
        """The values of primitive fields, those of superclasses first."""
        inherited = self._fields(kind.parent) if kind.parent else []
        return inherited + [self._number(_PRIMITIVES[code]) for code, _name in kind.fields]

    def _class(self, depth: int = 0) -> _Class:
        """The description of a class: new, or one that came before."""
        tag = self._byte()
        if tag == _REFERENCE:
            found = self._referred()
            if not isinstance(found, _Class):
                raise UnknownObject("a class that is none")
            return found
        if tag != _CLASS or depth > _DEEPEST:
            raise UnknownObject(f"a class of the kind 0x{tag:02x}")
        kind = _Class(self._text(">H"))
        self._take(8)  # the version of the class
        self._handle(kind)
        kind.flags = self._byte()
        for _field in range(self._number(">H")):
            code = chr(self._byte())
            if code not in _PRIMITIVES:
                raise UnknownObject(f"an object of {kind.name!r}")
            kind.fields.append((code, self._text(">H")))
        if self._byte() != _END:
            raise UnknownObject(f"a class {kind.name!r} with annotations")
        if self._data[self._at] == _NULL:
            self._at += 1
        else:
            kind.parent = self._class(depth + 1)
        return kind

    def _referred(self) -> object:
        number = self._number(">i") - _FIRST_HANDLE
        if not 0 <= number < len(self._handles):
            raise UnknownObject("a reference to nothing")
        return self._handles[number]

    def _handle(self, value: object) -> int:
        self._handles.append(value)
        return len(self._handles) - 1

    def _string(self, length: str) -> str:
        text = self._text(length)
        self._handle(text)
        return text

    def _text(self, length: str) -> str:
        """Java's modified UTF-8, where it is UTF-8: others are refused as damaged."""
        return self._take(self._number(length)).decode()

    def _number(self, form: str) -> Any:
        return struct.unpack(form, self._take(struct.calcsize(form)))[0]

    def _byte(self) -> int:
        return self._take(1)[0]

    def _take(self, count: int) -> bytes:
        found = self._data[self._at : self._at + count]
        if count < 0 or len(found) != count:
            raise UnknownObject("a serialised object that is cut off")
        self._at += count
        return found
