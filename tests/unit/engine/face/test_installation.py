"""Tidemark beside other packages of the same names: the start says so instead of running a mixture."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import tidemark
from tidemark import installation

ROOT = Path(__file__).parents[4]
FACE = ROOT / "engine" / "face"


def run(arguments: list[str], *folders: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders))}
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, env=environment, cwd="/", check=False
    )


@pytest.mark.parametrize("package", ["engine", "signals", "adapters"])
@pytest.mark.parametrize("arguments", [["-c", "import tidemark"], ["-m", "tidemark", "check", "x"]])
def test_another_package_of_the_same_name_is_refused(package: str, arguments: list[str], tmp_path: Path):
    tmp_path.joinpath(package).mkdir()
    tmp_path.joinpath(package, "__init__.py").touch()
    ended = run(arguments, tmp_path, FACE, ROOT)

    assert ended.returncode != 0
    assert f"the package {package!r} is found at '{tmp_path}/{package}', and is not" in ended.stderr
    assert "install Tidemark into an environment of its own" in ended.stderr


def test_a_module_of_the_same_name_is_refused(tmp_path: Path):
    tmp_path.joinpath("signals.py").touch()
    ended = run(["-c", "import tidemark"], tmp_path, FACE, ROOT)

    assert "the package 'signals' is found as a module, and is not Tidemark's" in ended.stderr


def test_our_own_packages_are_accepted():
    ended = run(["-m", "tidemark", "--version"], FACE, ROOT)

    assert ended.stdout.startswith("tidemark ")


@pytest.fixture
def motor(tmp_path: Path) -> Path:
    """A folder with the metadata of a distribution that has a package `engine`, too."""
    metadata = tmp_path / "motor-2.0.dist-info"
    metadata.mkdir()
    metadata.joinpath("METADATA").write_text("Metadata-Version: 2.1\nName: motor\nVersion: 2.0\n")
    metadata.joinpath("top_level.txt").write_text("engine\nmotor\n")
    return tmp_path


def test_another_distribution_that_owns_a_package_of_the_same_name_is_refused(
    motor: Path, monkeypatch: pytest.MonkeyPatch
):
    installation.check_distributions()
    monkeypatch.syspath_prepend(motor)

    with pytest.raises(ImportError, match="the package 'engine' is installed by motor, too"):
        tidemark.run({})


def test_the_command_says_so_in_one_line(motor: Path):
    ended = run(["-m", "tidemark", "check", "x"], motor, FACE, ROOT)

    assert ended.returncode == 2
    assert ended.stderr.startswith("tidemark: the package 'engine' is installed by motor, too")
    assert ended.stderr.count("\n") == 1


def test_the_face_shows_what_it_says():
    assert sorted(tidemark.__all__) == tidemark.__all__
    assert [name for name in tidemark.__all__ if not hasattr(tidemark, name)] == []
    assert issubclass(tidemark.PositionLost, tidemark.TidemarkError)
