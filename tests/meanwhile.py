"""Work that goes on in a thread while a test does something else."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextmanager
def meanwhile(work: Callable[[threading.Event], None]) -> Iterator[None]:
    """Let a thread work until the event is set, at the end. Raises what it has failed of."""
    stop = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        working = pool.submit(work, stop)
        try:
            yield
        finally:
            stop.set()
        working.result()
