"""Windows that open while the stream goes on: what is told once they are open, and what failures mean."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from engine.errors import SchemaChanged, SourceError, TableBusy
from tests.job_bench import Bench, T
from tests.memory_source import Change

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from engine.model import Position, StagedRun
    from engine.ports.source import OpenWindow
    from engine.snapshot.merge import SupersededKeys


class LateWindow:
    """A window that opens when it has been polled so often."""

    def __init__(self, open_window: Callable[[], OpenWindow], polls: int) -> None:
        self._open, self._polls = open_window, polls
        self._opened: OpenWindow | None = None
        self.closed = False
        self.changed: Callable[[], object] | None = None

    @property
    def superseded(self) -> SupersededKeys | None:
        return self._opened.superseded if self._opened else None

    def poll(self) -> Sequence[StagedRun] | None:
        if self._opened is not None:
            return self._opened.poll()
        self._polls -= 1
        if self._polls == 0:
            self._opened = self._open()
        return None

    def watch(self, changed: Callable[[], object]) -> None:
        self.changed = changed

    def reached(self, position: Position) -> bool:
        return self._opened is not None and self._opened.reached(position)

    def close(self) -> None:
        self.closed = True
        if self._opened is not None:
            self._opened.close()


@pytest.fixture
def late(tmp_path) -> Any:
    """A job whose windows open three turns later; `late.given` are its windows."""
    bench: Any = Bench(tmp_path)
    open_window, bench.given = bench.source.open_window, []

    def begin(window: Any) -> LateWindow:
        made = LateWindow(lambda: open_window(window), 3)
        bench.given.append(made)
        return made

    bench.source.open_window = begin
    return bench


def reads(bench: Any) -> list[Any]:
    return sorted(key for op, _topic, key in bench.events() if op == "r")


def test_the_stream_goes_on_and_rows_follow_once_it_is_open(late):
    late.execute()
    late.turns(2)
    late.database.commit(Change(T, 1, "meanwhile"))
    late.turns(1)
    ahead = [(op, key) for op, _topic, key in late.events()]
    late.turns(8)

    assert ahead[-1][1] == 1
    assert not [op for op, _key in ahead if op == "r"]
    assert reads(late) == [1, 2, 3, 4, 5]
    assert late.told()[-1] == "finished public.t"


def test_what_becomes_of_the_window_ends_the_wait_for_the_log(late):
    late.execute()
    late.turns(2)
    log = late.job._log
    before = log.woken
    late.given[0].changed()

    assert log.woken == before + 1


def test_what_was_superseded_before_it_was_open_is_dropped(late):
    late.execute()
    late.turns(2)
    # Streamed before its snapshot, and not yet shown by it.
    hidden = late.database.commit(Change(T, 2, "hidden"), visible=False)
    late.turns(6)
    late.database.visible.add(hidden)
    late.turns(6)

    assert 2 not in reads(late)
    assert late.told()[-1] == "finished public.t"


@pytest.mark.parametrize("error", [TableBusy("locked", where=T), SchemaChanged("another form", where=T)])
def test_one_that_does_not_open_is_tried_again_as_if_it_had_failed_at_once(late, error):
    late.source.windows = [error]
    measured = late.source.measures
    late.execute()
    late.turns(5)
    closed = late.given[0].closed
    for _ in range(20):
        late.now_s += 1
        late.turns(1)

    assert closed
    assert late.source.measures - measured >= (2 if isinstance(error, SchemaChanged) else 1)
    assert reads(late) == [1, 2, 3, 4, 5]
    assert late.told()[-1] == "finished public.t"


def test_a_lost_session_ends_the_session_of_the_log(late):
    late.source.windows = [SourceError("the connection is lost")]
    late.execute()

    with pytest.raises(SourceError, match="is lost"):
        late.turns(5)


def test_a_stop_gives_it_up(late):
    late.execute()
    late.turns(2)
    late.database.signal("x", "stop-snapshot", "{}")
    late.turns(3)

    assert late.given[0].closed
    assert late.job.window is None
    assert not reads(late)
