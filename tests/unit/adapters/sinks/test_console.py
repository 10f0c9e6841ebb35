"""What the console sink prints."""

from __future__ import annotations

import io

import pytest

from adapters.sinks.console import ConsoleSink
from engine.errors import SinkError
from tests.batches import numbered
from tests.turns import Turns


def test_parts_are_printed_in_order_at_the_commit():
    stream = io.BytesIO()
    sink = Turns(ConsoleSink(stream))
    writer = sink.writer(1)
    writer.write(1, [numbered(2)])
    writer.write(0, [numbered(1)])
    before = stream.getvalue()
    sink.commit(1)
    sink.close()

    assert before == b""
    assert stream.getvalue() == b'p.public.t 1 {"n":1}\np.public.t 2 {"n":2}\n'


def test_standard_output_is_the_default(capfdbinary):
    sink = Turns(ConsoleSink())
    sink.writer(1).write(0, [numbered(1)])
    sink.commit(1)
    sink.close()

    assert capfdbinary.readouterr().out == b'p.public.t 1 {"n":1}\n'


def test_a_reader_that_has_gone_is_a_sink_error():
    class Closed(io.BytesIO):
        def write(self, _data):
            raise BrokenPipeError(32, "Broken pipe")

    sink = Turns(ConsoleSink(Closed()))
    sink.writer(1).write(0, [numbered(1)])

    with pytest.raises(SinkError, match="whoever read the output has gone"):
        sink.commit(1)
    sink.close()
