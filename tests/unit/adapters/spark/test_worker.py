"""What the process does with Python's memory."""

from __future__ import annotations

import gc

from adapters.spark.worker import keep_loaded


def test_what_is_loaded_is_hidden_from_the_garbage_collector_once():
    keep_loaded.cache_clear()
    before = gc.get_freeze_count()
    later: list[list[int]] = []
    try:
        keep_loaded()
        hidden = gc.get_freeze_count()
        later.extend([] for _ in range(1000))
        keep_loaded()

        assert hidden > before
        assert gc.get_freeze_count() < hidden + len(later)
    finally:
        gc.unfreeze()
        keep_loaded.cache_clear()
