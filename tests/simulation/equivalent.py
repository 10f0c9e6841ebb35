"""Mutants that change nothing that anyone could observe, each with its proof."""

from __future__ import annotations

EQUIVALENT: dict[str, str] = {}
"""By name (`Mutant.name`)."""
