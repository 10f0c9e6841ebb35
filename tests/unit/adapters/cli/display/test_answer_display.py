"""What is shown of answers: names and keys in them are anybody's, and steer no terminal."""

from __future__ import annotations

import pytest

from adapters.cli.display.answer_display import display_of

ANSWER = {
    "outcome": "failed",
    "text": "public.[/b]\x1b[2J not read: keys after (\n[/i])",
    "collection": "public.[/b]\x1b]0;owned\x07",
    "facts": {"rows": 3},
}


@pytest.mark.parametrize("terminal", [False, True])
def test_names_and_keys_can_not_steer_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *, terminal: bool
):
    monkeypatch.setattr("rich.console.Console.is_terminal", terminal)
    with display_of(as_json=False) as display:
        display.answered(ANSWER)

    shown = capsys.readouterr().out
    assert "[/b]" in shown
    for harmful in ("\x1b[2J", "\x1b]0;", "\x07", "(\n"):
        assert harmful not in shown
