"""Reads a checkpoint without Spark and without changing it, while a job writes to it or none runs.

Local directories, and the object stores and file systems that pyarrow knows.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
from pyarrow import ArrowException, fs

from adapters.storage import figures
from adapters.storage.answer_journal import answers_after, last_answers, latest_turn
from adapters.storage.lease import last_owner
from adapters.storage.state_files import QUEUE, state_name, turns_in, unseal
from engine.config.text.hidden import hidden_in, without_secrets
from engine.errors import ConfigError, StateError
from engine.job.saved.state_document import from_json

if TYPE_CHECKING:
    from adapters.storage.owner import Owner
    from engine.config.settings import Settings
    from engine.job.saved.state import State

_ATTEMPTS: Final = 5
"""How often a state is looked for. A running job removes a state a few turns later."""
_HINT: Final = "check tidemark.checkpoint, and that its storage can be reached from here"


@dataclass(frozen=True, slots=True)
class SavedTurn:
    """A promoted state, its document, and when it was saved, in Unix seconds; None if nobody says."""

    state: State
    document: bytes
    saved_s: float | None


class CheckpointReader:
    """Reads the checkpoint at a path or URI. Every method raises StateError.

    `place` is the path or URI as it may be shown: a URI may have a login.
    """

    def __init__(self, location: str) -> None:
        self._uri, self.location = location, without_secrets(location)
        try:
            if "://" in location:
                scheme, rest = location.split("://", 1)
                scheme = "s3" if scheme in {"s3a", "s3n"} else scheme
                self._files, self._root = fs.FileSystem.from_uri(f"{scheme}://{rest}")
            else:
                path = location.removeprefix("file:")
                self._files, self._root = fs.LocalFileSystem(), str(Path(path).absolute())
        except (ArrowException, OSError, ValueError) as error:
            raise self._failed(error) from error

    def newest(self) -> SavedTurn | None:
        """The newest promoted state; None if no turn was ever saved."""
        for _attempt in range(_ATTEMPTS):
            promoted, _pending = turns_in(self.names())
            if not promoted:
                return None
            try:
                return self._saved(promoted[-1])
            except FileNotFoundError:
                continue
        raise StateError("the states change too fast to be read", where=self.location, hint="try again")

    def figures(self) -> figures.Figures | None:
        """What the job wrote last about how it does; None if there is nothing."""
        try:
            return msgspec.json.decode(self.read(figures.FILE), type=figures.Figures)
        except (FileNotFoundError, msgspec.MsgspecError, UnicodeDecodeError):
            return None

    def answers(self, count: int) -> list[dict[str, Any]]:
        """The last answers to signals, in order: their turn, time, signal, outcome, text and facts."""
        return last_answers(self, count)

    def latest_answers(self) -> int:
        """The last turn that is not undone and that the journal may have answers of; -1 if it has none."""
        return min([latest_turn(self), *self._newest_turn()])

    def answers_after(self, turn: int) -> list[dict[str, Any]]:
        """The answers of later turns than this one, in order, without those of turns that are undone.

        Until the job's next answer, the journal may have them after a state was moved away.
        """
        last = self._newest_turn()
        return [answer for answer in answers_after(self, turn) if not last or answer["turn"] <= last[0]]

    def _newest_turn(self) -> list[int]:
        """The newest promoted turn; nothing if no state is there. A turn's answers follow its promotion."""
        return turns_in(self.names())[0][-1:]

    def owner(self) -> Owner | None:
        """Who held the checkpoint's lease last; None if nobody ever did."""
        return last_owner(self)

    def holder(self) -> Owner | None:
        """Who holds the lease, as far as can be known from here; None if nobody does."""
        owner = self.owner()
        return None if owner is None or owner.released or owner.process.gone else owner

    def has_pending(self) -> bool:
        """Whether a turn was begun, and only the sink knows if it ended."""
        promoted, pending = turns_in(self.names())
        return any(turn > (promoted[-1] if promoted else -1) for _epoch, turn in pending)

    def names(self) -> list[str]:
        """All files, in no order. A missing directory has none."""
        selector = fs.FileSelector(self._root, allow_not_found=True)
        try:
            return [info.base_name for info in self._files.get_file_info(selector)]
        except (ArrowException, OSError) as error:
            raise self._failed(error) from error

    def read(self, name: str) -> bytes:
        """A file's content. Raises FileNotFoundError if it is not there."""
        try:
            with self._files.open_input_stream(f"{self._root}/{name}") as stream:
                return bytes(stream.read())
        except FileNotFoundError:
            raise
        except (ArrowException, OSError) as error:
            raise self._failed(error) from error

    def modified_s(self, name: str) -> float | None:
        """When a file was written, in Unix seconds; None if the storage does not say."""
        (info,) = self._files.get_file_info([f"{self._root}/{name}"])
        return None if info.mtime_ns is None else info.mtime_ns / 1e9

    def _saved(self, turn: int) -> SavedTurn:
        name = state_name(turn)
        document = self._document(turn, name)
        saved_s = self.modified_s(name)
        return SavedTurn(from_json(document, self._beside), document, saved_s)

    def _beside(self, name: str) -> bytes:
        match = QUEUE.fullmatch(name)
        if match is None:
            raise StateError(f"the saved state names no queue: {name!r}", where=self.location)
        return self._document(int(match[1]), name)

    def _document(self, turn: int, name: str) -> bytes:
        return unseal(turn, self.read(name), where=f"{self.location}/{name}").document

    def _failed(self, error: Exception) -> StateError:
        said = hidden_in(str(error), self._uri)
        return StateError(f"can't be read: {said}", where=self.location, hint=_HINT)


def checkpoint_of(settings: Settings) -> CheckpointReader:
    """The checkpoint that the settings name. Raises ConfigError if they name none."""
    if not settings.job.checkpoint:
        raise ConfigError("'tidemark.checkpoint' is not set, so the job saves nothing to look at")
    return CheckpointReader(settings.job.checkpoint)
