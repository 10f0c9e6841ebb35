"""Certificates beside the state: kept by turn, found by their signal, under a seed that stays."""

from __future__ import annotations

import orjson
import pytest

from adapters.storage.certificate_files import CertificateDirectory, certificates_of
from adapters.storage.directory import LocalStorage
from engine.errors import StateError


@pytest.fixture
def storage(tmp_path):
    return LocalStorage(tmp_path)


def certificate(*signals: tuple[str, str | None]) -> str:
    return orjson.dumps({"signals": [{"signal": label, "id": id_} for label, id_ in signals]}).decode()


def test_certificates_are_found_by_the_signals_id_or_label_in_their_order(storage):
    directory = CertificateDirectory(storage)
    first, second, third = certificate(("0/1", "a")), certificate(("0/2", "b")), certificate(("0/3", "a"))
    directory.keep(10, [third])
    directory.keep(9, [first, second])
    directory.keep(9, [first, second])

    assert list(certificates_of(storage, "a")) == [first, third]
    assert list(certificates_of(storage, "0/2")) == [second]
    assert list(certificates_of(storage, "c")) == []


def test_a_certificate_for_several_signals_is_found_by_each(storage):
    both = certificate(("0/1", "a"), ("0/2", None))
    CertificateDirectory(storage).keep(1, [both])

    assert list(certificates_of(storage, "a")) == list(certificates_of(storage, "0/2")) == [both]


def test_a_certificate_may_have_any_character(storage):
    odd = certificate(("0/1", "a\u2028b\x85c"))
    CertificateDirectory(storage).keep(1, [odd])

    assert list(certificates_of(storage, "0/1")) == [odd]


@pytest.mark.parametrize("content", [b'{"signals": [', b"\xff\n", b"\0\n", b"{}\n", b"[1]\n"])
def test_a_damaged_file_is_named(storage, content):
    CertificateDirectory(storage).keep(1, [certificate(("0/1", "a"))])
    storage.create("certificates-000000000002.jsonl", content)

    with pytest.raises(StateError, match=r"certificates-000000000002\.jsonl.*damaged.*move it away"):
        list(certificates_of(storage, "a"))


def test_the_seed_is_drawn_once(storage, tmp_path):
    seed = CertificateDirectory(storage).seed()

    assert CertificateDirectory(LocalStorage(tmp_path)).seed() == seed
    assert 0 <= seed < 2**64


def test_two_checkpoints_have_different_seeds(tmp_path):
    directories = [tmp_path / "a", tmp_path / "b"]
    for directory in directories:
        directory.mkdir()

    assert len({CertificateDirectory(LocalStorage(directory)).seed() for directory in directories}) == 2


def test_a_damaged_seed_says_what_to_do(storage):
    storage.create("seed", b"spoilt")

    with pytest.raises(StateError, match=r"the seed of the certificates is damaged.*remove it"):
        CertificateDirectory(storage).seed()
