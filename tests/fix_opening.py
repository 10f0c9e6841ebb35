"""Windows of jobs in this process open before the turn that opens them ends.

Tests that turn a job by hand write behind that, and expect that the window does not show what they write.
Jobs in processes of their own, the simulator and `test_opening_window` open windows while the stream goes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.at_once import AtOnce

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session", autouse=True)
def windows_open_at_once() -> Iterator[None]:
    """Ask what opens windows in the thread that asks for them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("adapters.source.opening_window.OPENING", AtOnce)
        yield
