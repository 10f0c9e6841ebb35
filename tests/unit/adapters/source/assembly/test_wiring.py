from __future__ import annotations

from typing import Any, cast

import pytest

from adapters.source.assembly.supplied import SuppliedSource
from adapters.source.assembly.wiring import all_done


class Plain:
    pass


class Later:
    def __init__(self, *, behind: bool) -> None:
        self._behind = behind

    def behind(self) -> bool:
        return self._behind


@pytest.mark.parametrize(
    ("sink", "nothing_left", "expected"),
    [
        (Plain(), True, True),
        (Plain(), False, False),
        (Later(behind=True), True, False),
        (Later(behind=False), True, True),
        (Later(behind=False), False, False),
    ],
)
def test_a_job_with_nothing_left_to_do_ends_once_everything_shows(
    sink: Any, *, nothing_left: bool, expected: bool
):
    wired = SuppliedSource(cast("Any", None), lambda: None, str, done=lambda _state: nothing_left)

    assert all_done(wired, sink, cast("Any", None)) == expected
