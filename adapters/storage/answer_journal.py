"""The journal of answers: what became of every signal, step by step, beside the job's state.

    answers-000000000042.jsonl                the answers of turn 42, one JSON object a line
    answers-000000000007-000000000041.jsonl   those of many turns, put together

A turn's file is written after its state was promoted. If the process dies in between, the next start finds
the answers in that state and writes the file then. The turn is the file's name, so writing it again changes
nothing. Files of single turns are put together now and then. If that is interrupted, some single files stay
that the larger file has, too: readers pass over them, and the next time removes them.

After a damaged state was moved away, turns are numbered again. The first record of a process removes the
answers of the turns that are undone; else they would pass for those of the turns that take their numbers.

A turn that has only steps on the way (queued, started, progress) is not forced to disk: a snapshot has many
of them, and the stream would wait for each. A power failure may take such steps away.

The newest answers are kept, at least 10,000. The state of a turn holds none but its own.

Answers may be long, and strangers cause them. So a text is cut, and files are put together before they have
more bytes than fit into memory easily.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

import orjson

from adapters.storage.state_files import turns_in
from signals.answers import STEPS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from adapters.storage.directory import Storage
    from signals.answers import Answer

KEPT: Final = 10_000
_APART: Final = 50
_APART_BYTES: Final = 32 << 20
"""How many files of single turns there may be, and how many bytes in those of this process."""
_LONGEST: Final = 4_000
"""The most characters of a text."""
_FIELDS: Final = frozenset({"turn", "at_s", "label", "id", "outcome", "text"})
_NAME: Final = re.compile(r"answers-(\d{12,})(?:-(\d{12,}))?\.jsonl")


class AnswerFiles(Protocol):
    """Reads the files of a directory."""

    def names(self) -> list[str]:
        """All files, in no order."""

    def read(self, name: str) -> bytes:
        """A file's content."""


@dataclass(frozen=True, order=True, slots=True)
class _Piece:
    """A file of the journal, by the turns that it may have answers of."""

    first: int
    last: int
    single: bool
    name: str


class AnswerJournal:
    """Writes the journal into the checkpoint's directory. `now` gives Unix seconds."""

    def __init__(self, storage: Storage, now: Callable[[], float], kept: int = KEPT) -> None:
        self._storage, self._now, self._kept = storage, now, kept
        self._apart: int | None = None
        self._bytes = 0

    def record(self, turn: int, answers: Sequence[Answer]) -> None:
        """Write a turn's answers. Raises StateError; to be repeated then."""
        if self._apart is None:
            self._remove_undone(turn)
            self._apart = sum(piece.single for piece in _pieces(self._storage.names())[0])
        at_s = round(self._now(), 3)
        content = b"".join(_line(turn, at_s, answer) for answer in answers)
        told = any(answer.outcome not in STEPS for answer in answers)
        self._storage.create(f"answers-{turn:012d}.jsonl", content, forced=told)
        self._apart, self._bytes = self._apart + 1, self._bytes + len(content)
        if self._apart > _APART or self._bytes > _APART_BYTES:
            self._put_together()

    def _remove_undone(self, turn: int) -> None:
        """Remove the answers of this turn and later ones, unless another job has come further since."""
        names = self._storage.names()
        if turns_in(names)[0][-1:] > [turn]:
            return
        for piece in _pieces(names)[0]:
            if piece.last < turn or (piece.single and piece.first == turn):
                continue
            if piece.first < turn:
                lines = self._storage.read(piece.name).splitlines(keepends=True)
                left = b"".join(line for line in lines if not _is_of(line, turn))
                # Until the larger file is gone, readers take its answers and pass over these.
                self._storage.create(f"answers-{piece.first:012d}-{turn - 1:012d}.jsonl", left)
            self._storage.delete(piece.name)

    def _put_together(self) -> None:
        """Make one file of those of single turns, and remove the oldest files that are not needed."""
        pieces, covered = _pieces(self._storage.names())
        for piece in covered:
            self._storage.delete(piece.name)
        apart = [piece for piece in pieces if piece.single]
        content = b"".join(self._storage.read(piece.name) for piece in apart)
        self._storage.create(f"answers-{apart[0].first:012d}-{apart[-1].last:012d}.jsonl", content)
        for piece in apart:
            self._storage.delete(piece.name)
        self._apart = self._bytes = 0
        self._drop_old([piece for piece in pieces if not piece.single], content.count(b"\n"))

    def _drop_old(self, older: Sequence[_Piece], count: int) -> None:
        for piece in reversed(older):
            if count >= self._kept:
                self._storage.delete(piece.name)
            else:
                count += self._storage.read(piece.name).count(b"\n")


def _line(turn: int, at_s: float, answer: Answer) -> bytes:
    fields = asdict(answer)
    if len(answer.text) > _LONGEST:
        fields["text"] = answer.text[:_LONGEST] + "…"
    return orjson.dumps({"turn": turn, "at_s": at_s, **fields}) + b"\n"


def last_answers(files: AnswerFiles, count: int) -> list[dict[str, Any]]:
    """The last answers of a journal, in order; a file that disappears meanwhile is passed over."""
    found: list[bytes] = []
    for piece in reversed(_pieces(files.names())[0]):
        if len(found) >= count:
            break
        found = [*_lines(files, piece.name), *found]
    return [answer for line in found[-count:] if (answer := _parsed(line)) is not None]


def _parsed(line: bytes) -> dict[str, Any] | None:
    """An answer; None if the line is damaged, which loses nothing but that answer."""
    try:
        found = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    whole = isinstance(found, dict) and found.keys() >= _FIELDS and isinstance(found["turn"], int)
    return found if whole else None


def _is_of(line: bytes, turn: int) -> bool:
    """Whether a line has an answer of this turn or a later one."""
    answer = _parsed(line)
    return answer is not None and bool(answer["turn"] >= turn)


def latest_turn(files: AnswerFiles) -> int:
    """The last turn that the journal may have answers of; -1 if it is empty."""
    return max((piece.last for piece in _pieces(files.names())[0]), default=-1)


def answers_after(files: AnswerFiles, turn: int) -> list[dict[str, Any]]:
    """The answers of later turns than this one, in order."""
    pieces = [piece for piece in _pieces(files.names())[0] if piece.last > turn]
    found = (_parsed(line) for piece in pieces for line in _lines(files, piece.name))
    return [answer for answer in found if answer is not None and answer["turn"] > turn]


def _lines(files: AnswerFiles, name: str) -> Iterator[bytes]:
    try:
        yield from files.read(name).splitlines()
    except FileNotFoundError:
        return


def _pieces(names: Iterable[str]) -> tuple[list[_Piece], list[_Piece]]:
    """The journal's files in order, and those that a larger one has replaced."""
    matches = [match for match in map(_NAME.fullmatch, names) if match]
    found = sorted(
        _Piece(int(match[1]), int(match[2] or match[1]), match[2] is None, match[0]) for match in matches
    )
    large = [piece for piece in found if not piece.single]
    covered = [
        piece
        for piece in found
        if any(
            whole.first <= piece.first and piece.last <= whole.last for whole in large if whole is not piece
        )
    ]
    return [piece for piece in found if piece not in covered], covered
