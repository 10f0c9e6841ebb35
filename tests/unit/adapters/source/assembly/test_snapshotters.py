"""Finding whoever decides on the snapshot before the log."""

from __future__ import annotations

from importlib import metadata

import pytest

from adapters.source.assembly.snapshotters import GROUP, snapshotter
from engine.config.settings import SnapshotMode, SnapshotSettings
from engine.errors import ConfigError
from engine.model import CollectionId
from engine.snapshot.initial import Mode, StartSituation


class Mine:
    """A user's own."""

    def should_snapshot(self, standing: StartSituation) -> bool:
        return not standing.saved

    def should_stream(self) -> bool:
        return True

    def statement(self, collection: CollectionId) -> str | None:
        return f"SELECT * FROM {collection}"


class Half:
    """Lacks what a snapshotter must have."""

    def should_stream(self) -> bool:
        return True


def custom(name: str) -> SnapshotSettings:
    return SnapshotSettings(mode=SnapshotMode.CUSTOM, custom_name=name)


@pytest.mark.parametrize("mode", [mode for mode in SnapshotMode if mode is not SnapshotMode.CUSTOM])
def test_a_mode_decides_for_itself(mode: SnapshotMode):
    assert snapshotter(SnapshotSettings(mode=mode)) == Mode(mode)


def test_a_class_is_found_by_its_module_and_name():
    assert isinstance(snapshotter(custom(f"{__name__}:Mine")), Mine)


def test_a_class_is_found_by_its_entry_point(monkeypatch: pytest.MonkeyPatch):
    entry = metadata.EntryPoint("mine", f"{__name__}:Mine", GROUP)
    monkeypatch.setattr(metadata, "entry_points", lambda group: [entry] if group == GROUP else [])

    assert isinstance(snapshotter(custom("mine")), Mine)
    with pytest.raises(ConfigError, match="known: mine"):
        snapshotter(custom("other"))


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("nowhere_at_all:Mine", "nowhere_at_all"),
        (f"{__name__}:Nobody", "Nobody"),
        ("mine", "no entry point of that name"),
        (f"{__name__}:custom", "can't be made"),
        (f"{__name__}:Half", "it has no should_snapshot, statement"),
    ],
)
def test_what_is_no_snapshotter_is_refused_with_the_reason(name: str, problem: str):
    with pytest.raises(ConfigError, match=problem):
        snapshotter(custom(name))
