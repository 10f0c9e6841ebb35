"""What a storage behind Hadoop has thrown: it is full, the file is there, or something else."""

from __future__ import annotations

import errno

import pytest

from adapters.storage.directory import FileThere, failing
from engine.errors import StateError, StateNotSaved
from tests.thrown import Thrown, raised

IO, HADOOP = "java.io.IOException", "org.apache.hadoop"
NO_SPACE = Thrown(IO, "No space left on device")


@pytest.mark.parametrize(
    ("thrown", "expected"),
    [
        pytest.param(NO_SPACE, StateNotSaved, id="the system's words"),
        pytest.param(Thrown(IO, "Disk quota exceeded"), StateNotSaved, id="the same of a quota"),
        pytest.param(Thrown(f"{HADOOP}.fs.FSError", "lost", NO_SPACE), StateNotSaved, id="below another"),
        pytest.param(
            Thrown(f"{HADOOP}.hdfs.protocol.NSQuotaExceededException"), StateNotSaved, id="HDFS's class"
        ),
        pytest.param(Thrown(f"{HADOOP}.fs.FileAlreadyExistsException"), FileThere, id="there"),
        pytest.param(Thrown("java.nio.file.FileAlreadyExistsException", "a"), FileThere, id="Java's class"),
        pytest.param(
            Thrown(IO, "FileAlreadyExists.txt: QuotaExceededException is a file's name"),
            StateError,
            id="names in a message",
        ),
    ],
)
def test_the_class_of_an_exception_decides(thrown, expected):
    with pytest.raises(StateError, match="hdfs://a/b") as caught, failing("hdfs://a/b"):
        raise raised(thrown)

    assert type(caught.value) is expected


@pytest.mark.parametrize(
    ("number", "expected"),
    [(errno.ENOSPC, StateNotSaved), (errno.EDQUOT, StateNotSaved), (errno.EACCES, StateError)],
)
def test_the_system_s_number_decides(number, expected):
    with pytest.raises(StateError) as caught, failing("/a/b"):
        raise OSError(number, "no")

    assert type(caught.value) is expected
