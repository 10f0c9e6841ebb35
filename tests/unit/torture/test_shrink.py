"""A failing script is cut down to what makes it fail."""

from __future__ import annotations

from tests.torture.drawn import write
from tests.torture.script import Script, Wanted
from tests.torture.shrink import shrunk


def truncates(script: Script) -> int:
    return sum(step[0] == "remove" for step in script.steps)


def test_what_does_not_matter_is_left_out():
    script = next(
        script
        for script in (write(f"s/{n}", Wanted(hard=True, restart=True)) for n in range(99))
        if truncates(script)
    )

    *_, smallest = shrunk(script, lambda smaller: truncates(smaller) > 0)

    assert truncates(smallest) == 1
    assert smallest.size == 1


def test_a_script_that_fails_no_more_is_not_cut_down():
    assert list(shrunk(write("s"), lambda _one: False)) == []
