"""Credentials by reference: where each provider finds them, that they are asked for again, what fails how."""

from __future__ import annotations

import sys
from importlib import metadata
from typing import TYPE_CHECKING

import pytest

from engine.config.text import references
from engine.config.text.references import Hidden, may_change, resolve, resolve_again
from engine.config.text.refusals import note_refusal, refusal_count
from engine.errors import SourceError

if TYPE_CHECKING:
    from pathlib import Path

WORKING = f"{sys.executable} -c \"print('from a program')\""


def one(value: str, environment: dict[str, str] | None = None) -> str:
    found, problems = resolve({"p": value}, environment or {})
    assert not problems, problems
    return found["p"]


def problem(value: str) -> str:
    _found, problems = resolve({"p": value}, {})
    return problems["p"]


@pytest.fixture(autouse=True)
def _nothing_printed() -> None:
    references._printed.clear()


@pytest.fixture
def vault(monkeypatch: pytest.MonkeyPatch) -> dict[tuple[str, str], str]:
    """A provider by entry point, and what it has."""
    kept: dict[tuple[str, str], str] = {}

    def provide(path: str, key: str) -> str:
        if key == "broken":
            raise RuntimeError("the token s3cr3t is refused")
        return kept[path, key]

    class Point:
        def load(self):
            return provide

    def points(*, group: str, name: str) -> list[Point]:
        return [Point()] if (group, name) == ("tidemark.credentials", "vault") else []

    monkeypatch.setattr(metadata, "entry_points", points)
    return kept


def test_each_provider_gives_what_it_has(tmp_path: Path, vault: dict[tuple[str, str], str]):
    (tmp_path / "s.properties").write_text("key=from a file")
    (tmp_path / "name").write_text("the whole of\na file")
    vault["secret/data/db", "password"] = "from the vault"

    assert one("${env:X}", {"X": "from the environment"}) == "from the environment"
    assert one(f"${{file:{tmp_path}/s.properties:key}}") == "from a file"
    assert one(f"${{dir:{tmp_path}:name}}") == "the whole of\na file"
    assert one(f"${{cmd:{WORKING}}}") == "from a program"
    assert one("${vault:secret/data/db:password}") == "from the vault"
    assert one("a ${env:X} b", {"X": "x"}) == "a x b"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("${dir:/tmp:../etc/passwd}", "'../etc/passwd' is no name of a file in the directory '/tmp'"),
        ("${dir:/tmp:none-such}", "can't read the file '/tmp/none-such'"),
        ("${dir:/tmp}", "a dir reference reads ${dir:path:name}"),
        ("${cmd:/none/such x}", "a program can't be run: FileNotFoundError"),
        ("${cmd:}", "a program can't be run"),
        ('${cmd:sh -c "unclosed}', "a program can't be run: ValueError"),
        ("${cmd:sh -c 'echo s3cr3t; echo s3cr3t >&2; exit 3'}", "the program 'sh' ended with 3"),
        ("${vault:broken}", "the provider 'vault' failed with RuntimeError"),
        ("${vault:secret:none}", "the provider 'vault' has no 'none'"),
        ("${other:x}", "no config provider 'other'; known: env, file, dir, cmd, and entry points of"),
    ],
)
def test_what_can_t_be_had_is_named_without_what_was_said(
    vault: dict[tuple[str, str], str], value: str, said: str
):
    assert not vault
    assert said in problem(value)
    assert "s3cr3t" not in problem(value)


def test_a_program_that_does_not_end_is_given_up(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(references, "_PROGRAM_S", 0.2)

    assert "the program 'sleep' took more than 0.2 s" in problem("${cmd:sleep 20}")


def test_a_value_is_asked_for_again(tmp_path: Path):
    (tmp_path / "password").write_text("first")
    value = one(f"${{dir:{tmp_path}:password}}")
    (tmp_path / "password").write_text("second")

    assert value == "first"
    assert resolve_again(value) == "second"
    assert resolve_again("plain") == "plain"
    assert may_change(value)
    assert not may_change(one("${env:X}", {"X": "x"}))


def test_blanks_that_were_taken_away_are_again(tmp_path: Path):
    (tmp_path / "user").write_text("me\n")
    value = one(f"${{dir:{tmp_path}:user}}")

    assert resolve_again(value) == "me\n"
    assert resolve_again(value.strip()) == "me"


def test_a_provider_that_is_away_is_a_fault_that_passes(tmp_path: Path):
    (tmp_path / "password").write_text("first")
    value = one(f"${{dir:{tmp_path}:password}}")
    (tmp_path / "password").unlink()

    with pytest.raises(SourceError, match="can't get a credential: can't read the file"):
        resolve_again(value)


def test_a_program_is_asked_once_for_connections_at_once_and_again_after_a_refusal(tmp_path: Path):
    count = tmp_path / "count"
    value = one(f"${{cmd:sh -c 'echo x >> {count}; wc -l < {count}'}}")
    before = refusal_count()
    assert (value.strip(), resolve_again(value).strip()) == ("1", "1")

    note_refusal()

    assert resolve_again(value).strip() == "2"
    assert refusal_count() == before + 1


def test_a_program_s_words_are_no_shell_s_to_read():
    assert one("${cmd:echo $HOME; touch x}").startswith("$HOME; touch")
    assert isinstance(one("${cmd:echo a}"), Hidden)
