"""What an executor looks at before it is given work: run here as there."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from adapters.spark.cluster import executor_look
from adapters.spark.cluster.executor_look import digest, look

OURS = ("engine", "signals")


@pytest.fixture(autouse=True)
def _at_once(monkeypatch):
    monkeypatch.setattr(executor_look, "_STAY_S", 0.0)


def lacks(**asked) -> list[str]:
    given = {"packages": OURS, "versions": {}, "code": digest(OURS), "addresses": (), "directories": ()}
    ((_mark, _host, found),) = look(iter(()), **given | asked)
    return found


def test_nothing_is_missing_where_the_driver_is():
    assert lacks() == []


def test_another_version_of_a_package_is_told():
    assert lacks(versions={"pytest": "0.1"}) == [f"has pytest {pytest.__version__}, the driver has 0.1"]


def test_a_package_that_is_not_there_is_told():
    assert lacks(versions={"no-such-thing": "1"}) == ["lacks the package no-such-thing 1"]


def test_another_python_is_told():
    found = ".".join(map(str, sys.version_info[:2]))

    assert lacks(versions={"python": "2.7"}) == [f"has Python {found}, the driver has 2.7"]


def test_other_code_is_told():
    assert lacks(code="other") == ["has another version of tidemark than the driver"]


def test_no_code_is_told():
    assert lacks(packages=("no_such_package",)) == ["lacks tidemark"]


def test_a_server_that_is_not_reached_is_told():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]

        assert lacks(addresses=[("the database", "127.0.0.1", port)]) == [
            f"does not reach the database at 127.0.0.1:{port}, which the driver reaches"
        ]


def test_a_directory_without_the_drivers_file_is_told(tmp_path: Path):
    (tmp_path / "mark").touch()
    seen, other = ("tidemark.staging.dir", str(tmp_path), "mark"), ("the sink", str(tmp_path), "other")

    assert lacks(directories=[seen, other]) == [
        f"does not see the sink {str(tmp_path)!r}, which it must share with the driver"
    ]


def test_it_needs_nothing_of_ours():
    """Spark sends its code to executors that may lack our packages."""
    path = Path(executor_look.__file__)
    code = f"import runpy; runpy.run_path({str(path)!r})"

    subprocess.run([sys.executable, "-I", "-S", "-c", code], check=True)
