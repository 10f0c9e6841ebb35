"""What holds for all commands: examples that can be run, JSON for programs, completion."""

from __future__ import annotations

import os
import re
import shlex
from typing import TYPE_CHECKING, Any

import pytest
import typer
from typer.testing import CliRunner

from adapters.cli import app

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Any = typer.main.get_command(app.app)


def commands(of: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    if hasattr(of, "commands"):
        for name, command in of.commands.items():
            yield from commands(command, (*path, name))
    else:
        yield " ".join(path), of


COMMANDS = dict(commands(ROOT))


def examples(command: Any) -> list[str]:
    return re.findall(r"Example: tidemark (.+)", command.help or "")


def parsed(words: list[str]) -> str:
    """The command that these words call; raises an error if they can't be parsed."""
    found, path = ROOT, list[str]()
    while hasattr(found, "commands"):
        found = found.commands[words[0]]
        path.append(words.pop(0))
    found.make_context(path[-1], words)
    return " ".join(path)


def test_all_commands_are_walked():
    assert {"run", "check", "init", "status", "package", "import-offsets"} <= set(COMMANDS)
    assert {"signal execute", "signal log", "state show", "state move"} <= set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_has_examples_that_call_it(name: str):
    found = examples(COMMANDS[name])

    assert found
    for example in found:
        assert parsed(shlex.split(example.partition(" | ")[0])) == name


def test_an_example_with_an_unknown_option_is_found():
    with pytest.raises(Exception, match="No such option"):
        parsed(["status", "c.properties", "--jsno"])


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_can_speak_json(name: str):
    options = {option for parameter in COMMANDS[name].params for option in parameter.opts}

    assert options & {"--json", "--log-format"} or name in {"state show", "certificate"}


@pytest.mark.parametrize(
    ("typed", "expected"), [("tidemark sta", ["state", "status"]), ("tidemark signal ex", ["execute"])]
)
def test_a_shell_completes_commands(typed: str, expected: list[str]):
    environment = {
        **os.environ,
        "_TIDEMARK_COMPLETE": "complete_bash",
        "COMP_WORDS": typed,
        "COMP_CWORD": str(len(typed.split()) - 1),
    }
    result = CliRunner().invoke(app.app, [], env=environment, prog_name="tidemark")

    assert sorted(result.stdout.split()) == expected
