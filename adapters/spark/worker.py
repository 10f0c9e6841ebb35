"""What a task does for the Python worker that it ran in: spare it work before and after each task.

Before a task a worker calls `importlib.invalidate_caches()`, and up to Python 3.12 that reads the
directory of every archive on its path anew, thousands of names of Spark's own. After a task it
collects garbage, and looks through all modules that are loaded. Either takes some 50 ms on one core,
for a task that takes as long.
"""

from __future__ import annotations

import gc
import sys
import zipimport
from functools import cache


def spare_worker() -> None:
    """Make the worker's next tasks begin and end at once; to be called at the end of a task."""
    _forget_archives()
    _keep_modules()


@cache
def _keep_modules() -> None:
    """Take what is loaded out of the collector's sight; once, so that what tasks leave stays in it."""
    gc.freeze()


def _forget_archives() -> None:
    """Drop the finders of archives; an import that needs one makes it again."""
    finders = sys.path_importer_cache
    for path in [path for path, finder in finders.items() if isinstance(finder, zipimport.zipimporter)]:
        finders.pop(path, None)
