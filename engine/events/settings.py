"""The settings that shape events, as values. `engine.config` parses them from Debezium's properties."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum

from engine.events.batch import EventForm

_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")


class DecimalMode(StrEnum):
    """`decimal.handling.mode`."""

    PRECISE = "precise"
    DOUBLE = "double"
    STRING = "string"


class BinaryMode(StrEnum):
    """`binary.handling.mode`."""

    BYTES = "bytes"
    BASE64 = "base64"
    BASE64_URL_SAFE = "base64-url-safe"
    HEX = "hex"


class TimeMode(StrEnum):
    """`time.precision.mode`."""

    ADAPTIVE = "adaptive"
    ADAPTIVE_TIME_MICROSECONDS = "adaptive_time_microseconds"
    CONNECT = "connect"


class IntervalMode(StrEnum):
    """`interval.handling.mode`."""

    NUMERIC = "numeric"
    STRING = "string"


class HstoreMode(StrEnum):
    """`hstore.handling.mode`."""

    JSON = "json"
    MAP = "map"


class NameAdjustment(StrEnum):
    """`schema.name.adjustment.mode` and `field.name.adjustment.mode`."""

    NONE = "none"
    AVRO = "avro"


class HeaderConverter(StrEnum):
    """`header.converter`: how the headers of a key change are written."""

    SIMPLE = "org.apache.kafka.connect.storage.SimpleHeaderConverter"
    JSON = "org.apache.kafka.connect.json.JsonConverter"


class Fault(StrEnum):
    """`tidemark.keep.debezium.faults`: what Debezium 2.1.4 loses or garbles when streaming."""

    NAMES = "names"
    DEFAULTS = "defaults"
    TEXTS = "texts"
    INTERVALS = "intervals"
    ARRAYS = "arrays"
    SCALES = "scales"


@dataclass(frozen=True, slots=True)
class ColumnMask:
    """One `column.mask.*` or `column.truncate.*` property; `columns` are anchored expressions.

    With `hash` and `salt` it hashes (`version` 1 or 2). Otherwise it masks with `length` asterisks, or
    truncates to `length` characters if `truncate` is set.
    """

    columns: tuple[str, ...]
    length: int = 0
    truncate: bool = False
    hash: str = ""
    salt: str = field(default="", repr=False)
    version: int = 1


@dataclass(frozen=True, slots=True)
class EventSettings:
    """Everything that decides how a row becomes an event. The defaults are Debezium 2.1.4's."""

    topic_prefix: str
    database: str
    topic_delimiter: str = "."
    transaction_topic: str = "transaction"
    heartbeat_prefix: str = "__debezium-heartbeat"
    key_schemas: bool = True
    value_schemas: bool = True
    header_converter: HeaderConverter = HeaderConverter.SIMPLE
    header_schemas: bool = True
    tombstones: bool = True
    skipped_operations: frozenset[str] = frozenset({"t"})
    transaction_metadata: bool = False
    decimals: DecimalMode = DecimalMode.PRECISE
    binary: BinaryMode = BinaryMode.BYTES
    times: TimeMode = TimeMode.ADAPTIVE
    intervals: IntervalMode = IntervalMode.NUMERIC
    hstore: HstoreMode = HstoreMode.JSON
    money_fraction_digits: int = 2
    replace_null_with_default: bool = True
    unavailable_value: bytes = b"__debezium_unavailable_value"
    include_unknown_types: bool = False
    schema_names: NameAdjustment = NameAdjustment.NONE
    sanitize_fields: bool = False
    include_columns: tuple[str, ...] = ()
    exclude_columns: tuple[str, ...] = ()
    message_keys: tuple[str, ...] = ()
    masks: tuple[ColumnMask, ...] = ()
    propagate_columns: tuple[str, ...] = ()
    propagate_types: tuple[str, ...] = ()
    include_message_prefixes: tuple[str, ...] = ()
    exclude_message_prefixes: tuple[str, ...] = ()
    signal_collection: str = ""
    kept_faults: frozenset[Fault] = frozenset()
    form: EventForm = EventForm.RECORDS
    extra: dict[str, str] = field(default_factory=dict)

    @property
    def unavailable_text(self) -> str:
        """`unavailable_value` as text. Invalid UTF-8 becomes U+FFFD as in Java: one for a whole surrogate."""
        return _SURROGATE.sub(b"\xff", self.unavailable_value).decode(errors="replace")
