"""The scans of a table that a verification keeps, since a table has no other history."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from adapters.verify.table_comparison import Scan


@dataclass(slots=True)
class KeptScans:
    """Scans of one verification, which `of` names by its ticket and its first turn."""

    of: tuple[int, int] = (-1, -1)
    all: tuple[Scan, ...] = ()

    def begin(self, of: tuple[int, int]) -> None:
        """Forget those of other verifications."""
        if of != self.of:
            self.forget()
            self.of = of

    def add(self, scan: Scan) -> None:
        """Keep a scan."""
        self.all += (scan,)

    def forget(self) -> None:
        """Remove all files."""
        for path in {str(Path(path).parent) for scan in self.all for path in scan.paths}:
            shutil.rmtree(path, ignore_errors=True)
        self.all = ()
