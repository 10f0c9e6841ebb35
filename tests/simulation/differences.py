"""How a copy differs from its source, as every judge counts it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping


def differences(
    source: Mapping[Any, Any], copy: Mapping[Any, Any], wrong: Collection[Any] = ()
) -> dict[str, int]:
    """How many rows are missing, different and extra. Those under the keys in `wrong` differ in any case."""
    both = source.keys() & copy.keys()
    return {
        "missing": len(source.keys() - copy.keys()),
        "different": sum(source[key] != copy[key] or key in wrong for key in both),
        "extra": len(copy.keys() - source.keys()),
    }
