"""The end of a history that has none of its own: what it was to show has been seen."""

from __future__ import annotations


class Over(Exception):
    """Nothing more is to be played or judged."""
