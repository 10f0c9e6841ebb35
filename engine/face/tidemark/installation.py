"""Refuses to run beside another package's `engine`, `signals` or `adapters`.

Tidemark installs packages of these names. If another distribution installs one of them too, Python finds
whichever comes first, or a mixture of both.
"""

from __future__ import annotations

from importlib.metadata import Distribution, distributions
from importlib.util import find_spec
from pathlib import Path

_OWN = {"engine": "engine.ports", "signals": "signals.desk", "adapters": "adapters.storage"}
"""Packages, each with a module that ours has."""
_HINT = "install Tidemark into an environment of its own"


def check_modules() -> None:
    """Raise ImportError if Python finds another package than ours."""
    for package, module in _OWN.items():
        spec = find_spec(package)
        places = [Path(place) for place in (spec and spec.submodule_search_locations) or ()]
        if not _within(module, places):
            where = f"at {str(places[0])!r}" if places else "as a module" if spec else "nowhere"
            raise ImportError(f"the package {package!r} is found {where}, and is not Tidemark's; {_HINT}")


def check_distributions() -> None:
    """Raise ImportError if another installed distribution has a package of the same name."""
    for distribution in distributions():
        name = distribution.metadata["Name"] or ""
        for package in _OWN if name.lower() != "tidemark" else ():
            if not _has(distribution, package):
                continue
            raise ImportError(
                f"the package {package!r} is installed by {name}, too: each may have replaced files of the"
                f" other; {_HINT}"
            )


def _has(distribution: Distribution, package: str) -> bool:
    listed = distribution.read_text("top_level.txt")
    if listed is not None:
        return package in listed.split()
    return f"\n{package}/" in "\n" + (distribution.read_text("RECORD") or "")


def _within(module: str, places: list[Path]) -> bool:
    """Whether a module is found in its package. An editable install finds ours in another's, too."""
    try:
        spec = find_spec(module)
    except ModuleNotFoundError:
        return False
    origin = Path(spec.origin or "") if spec else Path()
    return any(origin.is_relative_to(place) for place in places)


check_modules()
