"""A run of many histories, and what it tells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from tests.torture.run import Run

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
