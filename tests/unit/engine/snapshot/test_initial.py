"""What each mode does, from every place that a start can find the job in."""

from __future__ import annotations

import pytest

from engine.config.settings import SnapshotMode
from engine.config.sources.selection import CaptureSettings
from engine.model import CollectionId
from engine.snapshot.initial import Log, Mode, Start, StartSituation, start, to_read

NEW = StartSituation()
SLOT = StartSituation(log=Log.KEPT)
SAVED = StartSituation(saved=True, log=Log.KEPT, streamed=True)
GONE = StartSituation(saved=True, log=Log.LOST, streamed=True)
LOST = StartSituation(log=Log.LOST)
LEFT = StartSituation(saved=True, log=Log.KEPT, left=True)
FURTHER = StartSituation(saved=True, log=Log.KEPT, left=True, streamed=True)
AGAIN = StartSituation(saved=True, log=Log.KEPT, streamed=True, begun=True)
PLACES = (NEW, SLOT, SAVED, GONE, LOST, LEFT, FURTHER, AGAIN)


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        (SnapshotMode.INITIAL, "at_log beside stream lost lost stream stream stream"),
        (SnapshotMode.EXPORTED, "at_log beside stream lost lost stream stream stream"),
        (SnapshotMode.ALWAYS, "at_log beside beside at_log at_log stream stream stream"),
        (SnapshotMode.WHEN_NEEDED, "at_log beside stream at_log at_log stream stream stream"),
        (SnapshotMode.NEVER, "stream stream stream lost lost stream stream stream"),
        (SnapshotMode.NO_DATA, "stream stream stream lost lost stream stream stream"),
    ],
)
def test_a_mode_in_every_place(mode: SnapshotMode, expected: str):
    assert " ".join(start(Mode(mode), place) for place in PLACES) == expected


@pytest.mark.parametrize(
    ("standing", "expected"),
    [
        (NEW, Start.ALONE),
        (StartSituation(saved=True), Start.END),
        (StartSituation(saved=True, left=True), Start.ALONE),
        (StartSituation(saved=True, left=True, begun=True), Start.ALONE),
    ],
)
def test_a_snapshot_without_a_log_is_taken_once_and_never_gone_on_with(
    standing: StartSituation, expected: Start
):
    assert start(Mode(SnapshotMode.INITIAL_ONLY), standing) is expected


@pytest.mark.parametrize("mode", [SnapshotMode.INITIAL, SnapshotMode.ALWAYS, SnapshotMode.WHEN_NEEDED])
@pytest.mark.parametrize(
    ("standing", "expected"),
    [
        pytest.param(LEFT, Start.AT_LOG, id="the log was not streamed yet"),
        pytest.param(FURTHER, Start.BESIDE, id="of a log that was streamed nothing is lost"),
        pytest.param(
            StartSituation(saved=True, log=Log.KEPT, left=True, begun=True),
            Start.STREAM,
            id="only at a start",
        ),
    ],
)
def test_an_interrupted_snapshot_is_taken_anew_where_that_is_asked_for(mode, standing, expected):
    assert start(Mode(mode), standing, redo=True) is expected


class Mine:
    """A user's own: reads tables where the log is lost, and never otherwise."""

    def should_snapshot(self, standing: StartSituation) -> bool:
        return standing.log is Log.LOST

    def should_stream(self) -> bool:
        return True

    def statement(self, collection: CollectionId) -> str | None:
        raise NotImplementedError


def test_a_snapshotter_of_the_user_s_decides_as_a_mode_does():
    assert start(Mine(), NEW) is Start.STREAM
    assert start(Mine(), GONE) is Start.AT_LOG


def named(*names: str) -> list[CollectionId]:
    return [CollectionId(tuple(name.split("."))) for name in names]


TABLES = named("b.z", "a.y", "a.x", "c.w")


@pytest.mark.parametrize(
    ("capture", "only", "expected"),
    [
        (CaptureSettings(), (), named("a.x", "a.y", "b.z", "c.w")),
        (CaptureSettings(include_tables=(r"b\..*", "a.y", "a.x")), (), named("b.z", "a.y", "a.x")),
        (CaptureSettings(include_tables=("a.y", "a.*")), (), named("a.y", "a.x")),
        (CaptureSettings(exclude_tables=("a.x",)), (), named("a.y", "b.z", "c.w")),
        (CaptureSettings(include_schemas=("b", "a")), (), named("a.x", "a.y", "b.z")),
        (CaptureSettings(), ("c.w", r"a\.x"), named("a.x", "c.w")),
        (CaptureSettings(include_tables=("b.z", "a.x")), ("a.x", "b.z", "c.w"), named("b.z", "a.x")),
    ],
)
def test_tables_come_in_the_order_of_the_include_list_and_then_by_name(capture, only, expected):
    assert to_read(TABLES, capture, only) == expected


def test_a_table_comes_with_the_first_expression_that_is_found_in_its_name():
    """The second one matches the whole of a.xy, but the first is found there."""
    capture = CaptureSettings(include_tables=("a.x", "a.w|a.xy"))

    assert to_read(named("a.xy", "a.w", "a.x"), capture, ()) == named("a.x", "a.xy", "a.w")


def test_names_are_compared_as_debezium_compares_them():
    """Recorded from 2.1.4: the dot between the names counts, and so do surrogates."""
    found = named("B.z", "a-b.t", "a.T", "a.order items", "a.order_items", "a.t", "a.t-1", "a.t_1", "a.zé")
    found += named("a.z😀", "a.z\ufffd", "a1.q", "public.part_1", "public.x", "sig.s")

    assert to_read(reversed(found), CaptureSettings(), ()) == found
