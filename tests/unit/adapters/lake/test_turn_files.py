from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.lake.turn_files import Piece, TurnFiles, read_lines
from engine.errors import ConfigError, SourceError
from tests.change_lines import write_turn


def texts(pieces, block: int = 1 << 20) -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = []
    for piece in pieces:
        for lines in read_lines(piece, block):
            found += zip((text[:-1] for text in lines.texts.to_pylist()), lines.begins.tolist(), strict=True)
    return found


def test_turns_are_listed_by_number_and_nothing_else_is(tmp_path: Path):
    for turn in (12, 3, 1_000_000_000_000):
        write_turn(tmp_path, turn, ["{}\n"])
    (tmp_path / ".staging").mkdir()
    (tmp_path / "turn-7").mkdir()
    (tmp_path / ".empty-turn").write_text("13")

    files = TurnFiles(str(tmp_path))

    assert files.turns() == [3, 12, 1_000_000_000_000]
    assert files.turns(after=3, upto=12) == [12]


def test_parts_are_read_in_the_order_of_their_numbers(tmp_path: Path):
    write_turn(tmp_path, 1, ["a\n", "b\n"], ["c\n"])

    pieces = list(TurnFiles(f"file://{tmp_path}").pieces([1]))

    assert [(piece.turn, piece.part, piece.begin, piece.end) for piece in pieces] == [
        (1, 0, 0, 4),
        (1, 1, 0, 2),
    ]
    assert texts(pieces) == [("a", 0), ("b", 2), ("c", 0)]


def test_blanks_before_a_line_and_at_the_end_are_no_lines(tmp_path: Path):
    path = tmp_path / "part"
    path.write_bytes(b"  a\nb\n   c\n     ")

    assert texts([Piece(str(path), 1, 0, 0, 16)]) == [("a", 0), ("b", 4), ("c", 6)]


def test_a_line_without_an_end_is_said(tmp_path: Path):
    path = tmp_path / "part"
    path.write_bytes(b"a\nb")

    with pytest.raises(SourceError, match="no end"):
        texts([Piece(str(path), 1, 0, 0, 3)])


@given(
    lines=st.lists(st.text(st.characters(exclude_characters="\n \r", codec="utf-8"), min_size=1, max_size=9)),
    size=st.integers(1, 30),
    block=st.integers(1, 30),
)
def test_pieces_and_blocks_of_any_size_give_each_line_once(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], size: int, block: int
):
    directory = tmp_path_factory.mktemp("turns")
    write_turn(directory, 5, [text + "\n" for text in lines])
    whole = "".join(text + "\n" for text in lines).encode()

    found = texts(TurnFiles(str(directory)).pieces([5], size), block)

    assert [text for text, _begin in found] == lines
    assert all(whole[begin:].startswith(text.encode()) for text, begin in found)
    assert [begin for _text, begin in found] == sorted({begin for _text, begin in found})


def test_a_turn_that_was_removed_is_said(tmp_path: Path):
    write_turn(tmp_path, 1, ["a\n"])
    (piece,) = TurnFiles(str(tmp_path)).pieces([1])
    Path(piece.path).unlink()

    with pytest.raises(SourceError, match="removed before it was read"):
        texts([piece])
    with pytest.raises(SourceError, match="removed before it was read"):
        list(TurnFiles(str(tmp_path)).pieces([2]))


def test_a_directory_that_is_not_there_is_refused(tmp_path: Path):
    with pytest.raises(ConfigError, match="no directory"):
        TurnFiles(str(tmp_path / "none"))
