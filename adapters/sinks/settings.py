"""The settings of the sink `files`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class FilesSettings:
    """The directory, and the mode of committed files; None leaves it to the umask."""

    directory: str
    mode: int | None = None

    @property
    def shown(self) -> str:
        """The sink and its directory, for people."""
        return f"files in {self.directory}"

    def datasets(self, _topics: Iterable[str], /) -> list[tuple[str, str]]:
        """The directory."""
        return [("file", self.directory)]
