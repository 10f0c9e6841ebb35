"""The properties of one file as typed values, with all problems found while reading them.

Looks each name up, converts its text and words the problems. `parse` uses the values and finds
contradictions.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from engine.config.properties.row import Catalogue, Kind, Property
from engine.config.text.hidden import is_secret, shown_value
from engine.config.text.mask import shown_name
from engine.errors import InvariantError

if TYPE_CHECKING:
    from collections.abc import Mapping

T = TypeVar("T")

_FOREIGN = ("converters", "post.processors")
"""Properties whose value lists further prefixes, which own all properties under them."""


@dataclass(frozen=True, slots=True)
class Values:
    """The values of a file.

    - `given`: the text of each property
    - `typed`: a value for every exact name
    - `grouped`: the values of names with `<word>`s
    - `unread`: given but unusable, so their defaults are not what was meant
    """

    given: Mapping[str, str]
    catalogue: Catalogue
    typed: dict[str, object] = field(default_factory=dict)
    grouped: dict[str, list[tuple[tuple[str, ...], object]]] = field(default_factory=dict)
    unread: set[str] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)
    without_effect: list[str] = field(default_factory=list)

    def get(self, name: str, kind: type[T]) -> T:
        """The value of `name`, or its default if the file has none or an invalid one."""
        value = self.typed[name]
        if not isinstance(value, kind):
            raise InvariantError(f"{name!r} was read as {type(value).__name__}, not {kind.__name__}")
        return value

    def sure(self, *names: str) -> bool:
        """Whether the values of `names` are what was meant. If not, there is a problem about it already."""
        return self.unread.isdisjoint(names)

    def need(self, name: str, meaning: str) -> None:
        """Note a problem if the text of `name` is missing or empty."""
        if self.sure(name) and not self.get(name, str):
            self.problems.append(f"missing {name!r}: {meaning}")

    def group(self, pattern: str) -> list[tuple[tuple[str, ...], object]]:
        """The words at the `<word>`s of `pattern`, each with its value, in the file's order."""
        return self.grouped.get(pattern, [])


def read_values(
    given: Mapping[str, str], catalogue: Catalogue, unresolved: frozenset[str] = frozenset()
) -> Values:
    """Convert every property by its row. Names in `unresolved` count as given, but keep their defaults."""
    values = Values(given, catalogue, unread=set(unresolved))
    for known in values.catalogue.rows:
        if not known.is_pattern:
            values.typed[known.name] = known.standard()
    for name, text in given.items():
        known_row = values.catalogue.find(name)
        if known_row is None:
            _unknown(values, name)
        elif name not in unresolved:
            _take(values, known_row, name, text)
    return values


def _unknown(values: Values, name: str) -> None:
    owners = [word.strip() for key in _FOREIGN for word in values.given.get(key, "").split(",")]
    if any(owner and name.startswith(owner + ".") for owner in owners):
        return  # the owner itself is refused
    close = values.catalogue.suggestion(name)
    values.problems.append(
        f"no property {shown_name(name)!r}" + (f"; did you mean {close!r}?" if close else "")
    )


def _take(values: Values, known: Property, name: str, text: str) -> None:
    match known.kind:
        case Kind.RENAMED:
            values.problems.append(f"{name!r} is the name that older versions gave to {known.text!r}")
        case Kind.IGNORED:
            values.without_effect.append(f"{shown_name(name)} ({known.text})")
        case _:
            _convert(values, known, name, text)


def _convert(values: Values, known: Property, name: str, text: str) -> None:
    try:
        value = _checked(known, text)
    except ValueError as exc:
        values.unread.add(name)
        reason = known.shape.allowed if is_secret(name, text) else str(exc)
        values.problems.append(f"{shown_name(name)!r} is {_quoted(name, text)}; it must be {reason}")
        return
    if known.is_pattern or value != known.standard():
        _weigh(values, known, name, text)
    _store(values, known, name, value)


def _checked(known: Property, text: str) -> object:
    if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise ValueError("text without NUL characters and halves of surrogate pairs")
    return known.shape.read(text)


def _weigh(values: Values, known: Property, name: str, text: str) -> None:
    """Warn about what is not supported yet, and refuse what must not be ignored."""
    match known.kind:
        case Kind.LATER:
            values.without_effect.append(f"{shown_name(name)} (not supported yet)")
        case Kind.LATER_REFUSED:
            values.problems.append(
                f"{name!r} is {_quoted(name, text)}, not supported yet; leave it at {known.default!r}"
            )
        case Kind.REFUSED:
            values.problems.append(f"{name!r} can't be {_quoted(name, text)}: {known.text}")


def _store(values: Values, known: Property, name: str, value: object) -> None:
    if known.is_pattern:
        values.grouped.setdefault(known.name, []).append((known.parts(name) or (), value))
    else:
        values.typed[name] = value


def _quoted(name: str, text: str) -> str:
    shown = shown_value(name, text)
    return shown if is_secret(name, text) else repr(shown if len(shown) <= 120 else shown[:117] + "…")
