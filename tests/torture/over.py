"""Ends a history early, once it has shown what it was to show."""

from __future__ import annotations


class Over(Exception):
    """Nothing more is to be played or judged."""
