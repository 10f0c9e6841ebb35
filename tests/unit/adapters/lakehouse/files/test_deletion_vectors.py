from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from adapters.lakehouse.files.deletion_vectors import from_z85, read_vector, write_vectors, z85
from engine.errors import SinkError

if TYPE_CHECKING:
    from pathlib import Path

POSITIONS = [np.array([3, 70_000]), np.arange(0, 60_000, 2), np.array([], np.int64)]


def test_each_vector_of_a_file_is_read_by_its_descriptor(tmp_path: Path):
    path, described = write_vectors(tmp_path, POSITIONS)

    assert path.parent == tmp_path
    found = [read_vector(tmp_path, descriptor) for descriptor in described]
    assert [None if part is None else part.tolist() for part in found] == [
        part.tolist() for part in POSITIONS
    ]
    assert [descriptor["cardinality"] for descriptor in described] == [2, 30_000, 0]


def test_a_name_is_written_as_the_protocol_of_delta_shows_it():
    name = bytes.fromhex("d2c639aa8816431aaaf6d3fe2512ff61")

    assert z85(name) == "^-aqEH.-t@S}K{vb[*k^"
    assert from_z85("^-aqEH.-t@S}K{vb[*k^") == name


def test_a_vector_in_a_directory_with_a_prefix_is_found(tmp_path: Path):
    (tmp_path / "ab").mkdir()
    _path, (descriptor,) = write_vectors(tmp_path / "ab", POSITIONS[:1])
    descriptor["pathOrInlineDv"] = "ab" + descriptor["pathOrInlineDv"]

    found = read_vector(tmp_path, descriptor)

    assert found is not None
    assert found.tolist() == [3, 70_000]


def test_a_vector_in_the_log_is_left_to_spark(tmp_path: Path):
    assert read_vector(tmp_path, {"storageType": "i", "pathOrInlineDv": "x", "sizeInBytes": 4}) is None


def test_a_vector_of_another_format_is_left_to_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("adapters.lakehouse.files.deletion_vectors._MAGIC", 1681511376)
    _path, (descriptor,) = write_vectors(tmp_path, POSITIONS[:1])
    monkeypatch.undo()

    assert read_vector(tmp_path, descriptor) is None


def test_a_damaged_vector_is_refused(tmp_path: Path):
    path, (descriptor,) = write_vectors(tmp_path, POSITIONS[:1])
    content = bytearray(path.read_bytes())
    content[-6] ^= 1
    path.write_bytes(content)

    with pytest.raises(SinkError, match="damaged"):
        read_vector(tmp_path, descriptor)
