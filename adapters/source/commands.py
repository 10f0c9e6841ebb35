"""What a source offers to the command line: modules in its room `commands`. A source may lack each."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

    from engine.config.settings import Settings


def offered(settings: Settings, name: str) -> ModuleType | None:
    """The module of that name in the source's room `commands`; None if the source has none."""
    package = settings.runs.rpartition(".")[0]
    if not package:
        return None
    room = f"{package}.commands"
    try:
        return import_module(f"{room}.{name}")
    except ModuleNotFoundError as error:
        if error.name not in {room, f"{room}.{name}"}:
            raise
        return None
