"""A server that runs for the length of a block."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self


class Running(ABC):
    """A server that starts and closes with a block. It is also closed if it fails to start."""

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
        """Start, and wait until clients can connect."""

    @abstractmethod
    def close(self) -> None:
        """Stop, whatever its state, and remove what it left."""
