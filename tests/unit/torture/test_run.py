"""A run of many histories, and what it tells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, cast

import pytest

from tests.torture import run as run_module
from tests.torture.oracle import Violation
from tests.torture.play import Play
from tests.torture.run import Run
from tests.torture.script import Script

if TYPE_CHECKING:
    from pathlib import Path


class Broken:
    """A server that breaks before its first history."""

    def write(self, _seed: str, _wanted: object) -> Any:
        raise ConnectionError("the server is gone")


def test_a_run_that_breaks_tells_its_figures_all_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    run = Run(tmp_path, 18)
    run.ground = cast("Any", Broken())

    with pytest.raises(ConnectionError):
        run.histories("s", 1.0)

    assert "seed s: " in capsys.readouterr().out


class Clear:
    """A server on which nothing is played."""

    def site(self, _number: int, _script: object) -> Any:
        return None

    def clear(self, _number: int) -> None:
        """Nothing is left."""


class Interrupted(Play):
    """A history that ends early, with an error or with a verdict."""

    error: ClassVar[BaseException | None] = None

    def run(self) -> None:
        self.figures.histories = 1
        self.folder.mkdir(parents=True)
        if self.error is not None:
            raise self.error


def played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException | None) -> Run:
    monkeypatch.setattr(run_module, "Play", Interrupted)
    monkeypatch.setattr(Interrupted, "error", error)
    run = Run(tmp_path, 18)
    run.ground, run.child = cast("Any", Clear()), cast("Any", None)
    return run


@pytest.mark.parametrize("error", [ConnectionError("the disk is full"), KeyboardInterrupt()])
def test_a_history_that_an_error_of_the_test_cuts_short_is_no_proof(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, error: BaseException
):
    run = played(tmp_path, monkeypatch, error)

    with pytest.raises(type(error)):
        run.play(Script("s", [], []))

    said = capsys.readouterr().out
    assert f"cut short by an error of the test: {type(error).__name__}" in said
    assert not said.splitlines()[0].endswith("ok")
    assert (run.figures.histories, run.figures.cut_short, run.figures.violations) == (0, 1, 0)
    assert "cut short 1" in run.figures.line()


@pytest.mark.parametrize(
    ("error", "said"), [(None, "ok"), (Violation("a row is missing"), "a row is missing")]
)
def test_a_history_that_was_judged_counts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, error: Any, said: str
):
    run = played(tmp_path, monkeypatch, error)

    assert run.play(Script("s", [], [])) == (None if error is None else said)
    assert capsys.readouterr().out.splitlines()[0].endswith(said)
    assert (run.figures.histories, run.figures.cut_short) == (1, 0)
