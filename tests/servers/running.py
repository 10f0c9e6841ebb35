"""A server that runs for the length of a block."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self


class Running(ABC):
    """Starts with the block, and is closed with it, also where it does not start."""

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    @abstractmethod
    def start(self) -> None:
        """Start, and wait until clients can come in."""

    @abstractmethod
    def close(self) -> None:
        """Stop, however it stands, and remove what it left."""
