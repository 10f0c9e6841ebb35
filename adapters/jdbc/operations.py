"""What an event of a turn does to its row, as a number; and how masks of events are typed."""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Mask: TypeAlias = npt.NDArray[np.bool_]
CREATE, UPDATE, DELETE, TRUNCATE, READ = range(5)
OPERATIONS: Final = pa.array(["c", "u", "d", "t", "r"], pa.large_string())
"""By number, what events call it."""
NOWHERE: Final = -1
"""The number of an event or a key that there is not."""
