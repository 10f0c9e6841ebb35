"""The settings that the log's and the readers' sessions share, so that a value has one text.

Used as start-up options of the replication connection and of the readers. Also how the former is named.
"""

from __future__ import annotations

TEXT_SETTINGS = {
    "client_encoding": "UTF8",
    "DateStyle": "ISO, MDY",
    "TimeZone": "UTC",
    "IntervalStyle": "postgres",
    "extra_float_digits": "1",
    "bytea_output": "hex",
    "lc_monetary": "C",
    "xmloption": "content",
    "quote_all_identifiers": "off",
}
"""Names and values of the settings."""


def reading_options(statement_timeout_ms: int) -> str:
    """More start-up options for sessions that read rows: they write nothing, and queries have a timeout."""
    return f"-c default_transaction_read_only=on -c statement_timeout={statement_timeout_ms}"


def startup_options() -> str:
    """The settings as the `options` of a connection."""
    return " ".join(f"-c {name}={value.replace(' ', chr(92) + ' ')}" for name, value in TEXT_SETTINGS.items())


def reader_name(owner: str) -> str:
    """The application name of the log's reader, for this owner of a lease."""
    return f"tidemark {owner[:12]}".strip()
