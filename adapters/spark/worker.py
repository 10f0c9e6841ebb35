"""Saves the Python worker of a task some work before and after each task, and the driver some of it.

Before a task, a worker calls `importlib.invalidate_caches()`. Up to Python 3.12 that reads the directory of
every archive on its path again, with thousands of Spark's own names. After a task, it runs the garbage
collector over all loaded modules. Each takes some 50 ms on one core, as long as a task itself. The driver's
collector takes 0.1 s, while a turn waits.
"""

from __future__ import annotations

import gc
import sys
import zipimport
from functools import cache
from typing import Final

NICENESS: Final = 10
"""How much nicer processes that work for the driver on its machine are than the driver.

Not 19, because they also do some of the stream's work: large spans.
"""


def spare_worker() -> None:
    """Make the worker's next tasks begin and end faster; call this at the end of a task."""
    _forget_archives()
    keep_loaded()


@cache
def keep_loaded() -> None:
    """Hide what is loaded from the garbage collector; once, so that it still collects what comes later."""
    gc.freeze()


def _forget_archives() -> None:
    """Drop the finders of archives; an import that needs one creates it again."""
    finders = sys.path_importer_cache
    for path in [path for path, finder in finders.items() if isinstance(finder, zipimport.zipimporter)]:
        finders.pop(path, None)
