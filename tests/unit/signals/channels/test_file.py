"""The file channel: which bytes are a line, and when a file is another one."""

from __future__ import annotations

import logging

import pytest

from signals.channels.file import FileChannel


@pytest.fixture
def path(tmp_path):
    return tmp_path / "signals.jsonl"


@pytest.fixture
def channel(path):
    channel = FileChannel(path)
    channel.resume({})
    channel.memory()
    return channel


def append(path, text):
    with path.open("ab") as file:
        file.write(text.encode())


def taken(channel):
    return [(message.label, message.text) for message in channel.receive()]


def test_lines_are_labelled_by_the_byte_that_they_begin_at(path, channel):
    append(path, '{"a":"ü"}\n\n  \r\n{"b":2}\r\n')

    assert [
        ("signals.jsonl@0", '{"a":"ü"}'.encode()),
        ("signals.jsonl@16", b'{"b":2}\r'),
    ] == taken(channel)


def test_a_line_waits_for_its_newline(path, channel):
    append(path, '{"a":1}\n{"b"')
    before = taken(channel)
    append(path, ":2}\n")

    assert (before, taken(channel)) == ([("signals.jsonl@0", b'{"a":1}')], [("signals.jsonl@8", b'{"b":2}')])


def test_a_file_that_is_not_there_yet_is_waited_for(path, channel):
    assert taken(channel) == []
    append(path, "{}\n")

    assert taken(channel) == [("signals.jsonl@0", b"{}")]


@pytest.mark.parametrize(
    "replace",
    [
        pytest.param(lambda path: path.write_text('{"new":1}\n'), id="shorter"),
        pytest.param(lambda path: path.write_text('{"new":1}\n{"newer":2}\n{"newest":3}\n'), id="longer"),
        pytest.param(lambda path: (path.rename(f"{path}.1"), path.write_text('{"new":1}\n')), id="rotated"),
        pytest.param(lambda path: (path.unlink(), path.write_text('{"new":1}\n')), id="made anew"),
    ],
)
def test_another_file_is_read_from_its_beginning_and_told(path, channel, replace, caplog):
    append(path, '{"a":1}\n{"b":2}\n')
    taken(channel)
    with caplog.at_level(logging.WARNING, "signals"):
        replace(path)
        found = taken(channel)

    assert found[0] == ("signals.jsonl@0", b'{"new":1}')
    assert "is not the file it was" in caplog.text


def test_a_file_emptied_and_filled_again_is_read_again(path, channel):
    append(path, '{"a":1}\n')
    taken(channel)
    path.write_text("")
    assert not channel.pending()
    append(path, '{"a":1}\n')

    assert taken(channel) == [("signals.jsonl@0", b'{"a":1}')]


def test_a_copy_with_more_lines_goes_on_where_the_file_stood(path, channel, caplog):
    append(path, '{"a":1}\n')
    taken(channel)
    copy = path.with_suffix(".new")
    copy.write_bytes(path.read_bytes() + b'{"b":2}\n')
    copy.rename(path)

    assert taken(channel) == [("signals.jsonl@8", b'{"b":2}')]
    assert caplog.text == ""


def test_a_file_that_is_away_for_a_moment_keeps_its_place(path, channel):
    append(path, '{"a":1}\n')
    taken(channel)
    path.rename(f"{path}.away")
    assert taken(channel) == []
    path.with_name(f"{path.name}.away").rename(path)

    assert taken(channel) == []


def test_a_line_beyond_all_bounds_is_handed_over_in_pieces(path, channel, monkeypatch):
    monkeypatch.setattr("signals.channels.file._READ_AT_ONCE", 10)
    append(path, "x" * 25 + "\n{}\n")
    found = []
    while channel.pending():
        found += taken(channel)

    assert [len(text) for _label, text in found] == [10, 10, 5, 2]
    assert found[-1][0] == "signals.jsonl@26"


def test_a_file_that_can_not_be_read_is_told_once(path, channel, caplog):
    path.mkdir()
    with caplog.at_level(logging.WARNING, "signals"):
        for _look in range(3):
            channel.receive()

    assert caplog.text.count("can't be read: Is a directory") == 1
