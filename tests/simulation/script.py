"""A history as data: the setup, and the steps that the world takes. Drawn from a seed, saved as JSON.

A step is a tuple: its verb, then integers and words. `go n` lets the running job make n calls of its ports;
everything else happens between two such calls. `until p n` stops before the next call of port p, and after n
calls at most. A step that makes no sense where it comes does nothing, so any part of a history is a history,
too: that is what makes shrinking simple.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import orjson

from tests.simulation.generator import Generator

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Self

Step: TypeAlias = "tuple[Any, ...]"


@dataclass(frozen=True, slots=True)
class Setup:
    """What holds for a whole history. Times are in milliseconds.

    `rows` are there before the log begins. `knows`: the sink knows its turns after a restart. `late`: the log
    is delivered only when the script says so. `call_ms` passes with every call. With `beside`, a sink that
    forgets takes rows beside the turns, an event with each so many calls. A window has asked what it must
    know after `opening_polls` turns, and is open `joining_polls` turns later, while the stream goes on. With
    `long_queue` the queue has a document of its own, whatever is in it. With `spreads` a slice has a file for
    each task.
    """

    rows: int = 6
    initial: bool = False
    knows: bool = True
    late: bool = False
    span_rows: int = 3
    reading_polls: int = 2
    chunk_rows: int = 2
    window_rows: int = 4
    whole_rows: int = 0
    slice_bytes: int = 1
    tasks: int = 2
    most_reread: int = 100
    window_retries: int = 1
    call_ms: int = 5
    world: str = "core"
    beside: int = 0
    opening_polls: int = 0
    joining_polls: int = 0
    long_queue: bool = False
    spreads: bool = False

    def hurried(self) -> Self:
        """The same, without waiting for windows, and with more of the log at once."""
        return replace(self, span_rows=100, reading_polls=1, opening_polls=0)


@dataclass(frozen=True, slots=True)
class History:
    """A setup and its steps."""

    setup: Setup
    steps: tuple[Step, ...]

    def only(self, kept: list[int]) -> History:
        """The same with some of its steps."""
        return History(self.setup, tuple(self.steps[at] for at in kept))


def to_json(history: History, about: Mapping[str, str] = MappingProxyType({})) -> str:
    """One line for the setup and one for each step, behind what is said about it."""
    lines = ",\n  ".join(orjson.dumps(step).decode() for step in history.steps)
    default = asdict(type(history.setup)())
    known = asdict(history.setup).items()
    setup = {
        name: value
        for name, value in known
        if value != default[name] or (name == "world" and value != "core")
    }
    said = "".join(f' "{name}": {orjson.dumps(text).decode()},\n' for name, text in about.items())
    return f'{{\n{said} "setup": {orjson.dumps(setup).decode()},\n "steps": [\n  {lines}\n ]\n}}\n'


def from_json(text: str | bytes, setups: Mapping[str, type[Setup]] = MappingProxyType({})) -> History:
    """Read a saved history. `setups` are those of worlds besides the core's, by their names."""
    document = orjson.loads(text)
    kind = setups.get(document["setup"].get("world", ""), Setup)
    known = {field.name for field in fields(kind)}
    setup = {name: value for name, value in document["setup"].items() if name in known}
    return History(kind(**setup), tuple(_tuple(step) for step in document["steps"]))


def _tuple(value: Any) -> Any:
    return tuple(_tuple(element) for element in value) if isinstance(value, list) else value


_KEYS: Final = 8
_MOST_CALLS: Final = 150
"""Calls that a job makes at most to get to a port: a job that stands by needs most of them."""
_HOW: Final = ("before", "before", "after", "torn")


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """What a world's steps are drawn from. The worlds of all sources share the table of steps.

    `changes` happen to rows of `tables`, `hits` to rows that an open window reads; `truncates` is a chance in
    percent. `masks` chooses among the tables that signals name, `some` are those of which a signal asks for
    rows, in so many `forms`. `longest` is how many calls a `go` may grant. `more` draws what follows verbs
    that this world alone has, or has otherwise.
    """

    verbs: tuple[str, ...]
    tables: tuple[str, ...]
    changes: tuple[str, ...]
    hits: tuple[str, ...]
    faults: tuple[str, ...]
    masks: int
    some: tuple[str, ...]
    forms: int
    poisoned: tuple[str, ...] = ("t", "u", "b")
    longest: int = 70
    truncates: int = 2
    more: Mapping[str, Callable[[Generator, Setup], Step]] = field(default_factory=dict)

    def step(self, choose: Generator, setup: Setup) -> Step:
        """A step."""
        verb = choose.pick(self.verbs)
        if verb == "deliver" and not setup.late:
            verb = "settle"
        if (own := self.more.get(verb)) is not None:
            return (verb, *own(choose, setup))
        shared = _ARGUMENTS.get(verb)
        return (verb, *shared(self, choose, setup)) if shared else (verb,)

    def some_changes(self, choose: Generator, rows: int, most: int = 3) -> list[Step]:
        """A few changes of rows, for one transaction."""
        return [self._change(choose, rows) for _ in range(choose.between(1, most))]

    def _change(self, choose: Generator, rows: int) -> Step:
        table, what = choose.pick(self.tables), choose.pick(self.changes)
        if choose.chance(self.truncates):
            return (table, "truncate")
        if what in {"move", "slip"}:
            return (table, what, choose.below(rows + 1), choose.below(rows + 3))
        if what == "shift":
            return (table, what, choose.below(rows + 1), choose.between(-2, 9))
        return (table, what, choose.below(rows + 2))


_ARGUMENTS: Final[dict[str, Callable[[Vocabulary, Generator, Setup], Step]]] = {
    "go": lambda words, choose, _setup: (1 + choose.below(1 + choose.below(words.longest)),),
    "tx": lambda words, choose, setup: (*words.some_changes(choose, setup.rows), int(choose.chance(60))),
    "hit": lambda words, choose, _setup: (
        choose.below(2),
        choose.pick(words.hits),
        choose.below(8),
        choose.between(-1, 9),
        int(choose.chance(60)),
    ),
    "change": lambda words, choose, setup: (choose.below(3), *words.some_changes(choose, setup.rows, 2)),
    "commit": lambda _words, choose, _setup: (choose.below(3), int(choose.chance(60))),
    "settle": lambda _words, choose, _setup: (choose.below(3),),
    "abort": lambda _words, choose, _setup: (choose.below(3),),
    "deliver": lambda _words, choose, _setup: (choose.between(0, 6),),
    "execute": lambda words, choose, _setup: (choose.between(1, words.masks),),
    "block": lambda words, choose, _setup: (choose.between(1, words.masks),),
    "stop-blocking": lambda words, choose, _setup: (choose.below(words.masks + 1),),
    "execute-some": lambda words, choose, _setup: (
        choose.pick(words.some),
        choose.below(words.forms),
        *(choose.below(_KEYS + 1) for _ in range(3)),
        choose.pick((0, 0, 0, 1, -1)),
        choose.pick((0, 0, 1, 3)),
    ),
    "stop-snapshot": lambda words, choose, _setup: (choose.below(words.masks + 1),),
    "fault": lambda words, choose, _setup: (
        choose.pick(words.faults),
        choose.pick(_HOW),
        choose.between(1, 2),
    ),
    "straggle": lambda _words, choose, _setup: (choose.between(1, 4),),
    "poison": lambda words, choose, _setup: (choose.pick(words.poisoned), choose.below(_KEYS)),
    "jump": lambda _words, choose, _setup: (choose.between(-20, 20),),
    "freeze": lambda _words, choose, _setup: (choose.between(1, 16),),
    "bad-signal": lambda _words, choose, _setup: (choose.below(4),),
}
"""What follows each verb; nothing follows the others."""


def with_blow(
    choose: Generator, steps: list[Step], blows: Sequence[tuple[str, str]], *, percent: int, length: int
) -> tuple[Step, ...]:
    """The steps, with what may happen to the log, and what comes a while before it, in some histories.

    `length` is how many steps were drawn.
    """
    if choose.chance(percent):
        # Late, because what is lost ends the history.
        before, after = choose.pick(blows)
        at = choose.between(length // 3, length - 1)
        steps.insert(at + choose.between(1, len(steps) - at), (after,))
        steps.insert(at, (before,))
    return tuple(steps)


_STOPS: Final = (
    *("names", "names", "create_new", "rename", "rename", "create", "delete", "read"),
    *("open_log", "take", "writer", "commit", "turn"),
)
_DUEL: Final = ("rival", "switch", "switch")
"""The second job starts, the first one wakes, the second one wakes."""


def with_duel(choose: Generator, steps: list[Step], *, percent: int) -> list[Step]:
    """The steps, in some histories with two jobs that fall asleep just before calls of certain ports.

    Drawn numbers of calls seldom let both sleep at the one call where it matters.
    """
    if not choose.chance(percent):
        return steps
    duel: list[Step] = [("crash",)] if choose.chance(40) else []
    for verb in _DUEL:
        duel += [("until", choose.pick(_STOPS), _MOST_CALLS)] * choose.between(1, 4)
        duel.append((verb,))
    at = choose.below(len(steps))
    return [*steps[:at], *duel, *steps[at:]]


def drawn_alike(
    choose: Generator, *, late: int = 40, reading_polls: tuple[int, int] = (2, 5)
) -> dict[str, Any]:
    """What the setups of all worlds draw first, in this order. `late` is in percent."""
    return {
        "rows": choose.between(4, 9),
        "initial": choose.chance(30),
        "knows": choose.chance(75),
        "late": choose.chance(late),
        "span_rows": choose.between(1, 6),
        "reading_polls": choose.between(*reading_polls),
        "chunk_rows": choose.between(1, 2),
        "window_rows": choose.between(1, 4),
        "whole_rows": choose.pick((0, 0, 0, 3)),
        "slice_bytes": choose.pick((1, 1, 1000)),
        "tasks": choose.between(1, 2),
        "most_reread": choose.pick((100, 100, 3)),
        "window_retries": choose.between(0, 2),
        "call_ms": choose.pick((1, 5, 20, 100)),
    }


_VERBS: Final = (
    *(["go"] * 34),
    *(["tx"] * 16),
    *(["hit"] * 22),
    *(["change"] * 8),
    *(["commit"] * 5),
    *(["settle"] * 5),
    *(["deliver"] * 5),
    *(["execute"] * 6),
    *(["block"] * 2),
    *(["execute-some"] * 6),
    "stop-snapshot",
    "stop-blocking",
    *(["crash"] * 2),
    *(["fault"] * 7),
    "straggle",
    "poison",
    "heal",
    "alter",
    "abort",
    "jump",
    "freeze",
    "bad-signal",
    "rival",
    "switch",
    "switch",
    "restart",
)
_WORDS: Final = Vocabulary(
    verbs=_VERBS,
    tables=("t", "t", "t", "u", "b"),
    changes=("put", "put", "put", "delete", "touch", "touch", "move", "slip", "shift"),
    hits=("put", "put", "delete", "touch", "touch", "move", "slip", "shift", "truncate"),
    faults=(
        *("take", "commit", "create", "rename", "write", "writer", "open_window", "measure", "boundaries"),
        *("executors", "beside", "open_log", "failed", "failed", "gone"),
        *("busy", "login", "yield", "changed", "room"),
    ),
    masks=7,
    some=("t", "t", "u", "b"),
    forms=3,
    more={"alter": lambda choose, _setup: (choose.pick(("t", "u", "b")),)},
)


SomeSetup = TypeVar("SomeSetup", bound=Setup)


def opening_late(setup: SomeSetup, seed: int) -> SomeSetup:
    """The setup, for every second seed with windows that open while the stream goes on.

    Windows that open at once overlap far more often.
    """
    if seed % 2 == 0:
        return setup
    return replace(setup, opening_polls=seed // 2 % 4, joining_polls=seed // 8 % 3)


def draw(seed: int) -> History:
    """The history of a seed."""
    choose = Generator(seed)
    setup = replace(
        _setup(choose),
        opening_polls=(0, 0, 1, 2)[seed % 4],
        long_queue=seed % 3 == 0,
        spreads=seed % 5 == 0,
    )
    length = choose.between(40, 85)
    steps: list[Step] = [("execute", 7)] if not setup.initial or choose.chance(30) else []
    steps += [_WORDS.step(choose, setup) for _ in range(length)]
    return History(setup, tuple(with_duel(choose, steps, percent=15)))


def _setup(choose: Generator) -> Setup:
    alike = Setup(**drawn_alike(choose, reading_polls=(1, 3)), beside=choose.pick((0, 1, 4, 15)))
    # Windows overlap where they are emitted in many slices.
    return replace(
        alike,
        rows=choose.between(5, 10),
        chunk_rows=choose.pick((1, 1, 1, 2)),
        slice_bytes=choose.pick((1, 1, 1, 1, 1000)),
    )
