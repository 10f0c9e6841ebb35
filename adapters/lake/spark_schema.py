"""Spark's schemas as Arrow's, on every release of Spark that the job runs on."""

from __future__ import annotations

import inspect
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.pandas.types import to_arrow_schema

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa
    from pyspark.sql.types import StructType

_to_arrow: Callable[..., Any] = to_arrow_schema
# Spark 4.1 takes UTC for moments by itself. Spark 4.3 must be told a time zone, and fails without one.
_TOLD: Final = {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_schema).parameters else {}
_in_utc = partial(_to_arrow, **_TOLD)


def arrow_schema(schema: StructType) -> pa.Schema:
    """The schema for Arrow. Moments are in UTC."""
    return _in_utc(schema)
