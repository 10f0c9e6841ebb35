"""What pyodbc says only in its text: the server's error number, and that a driver can't be loaded.

An exception of pyodbc has an SQLSTATE and a text, in which pyodbc joins the messages of the driver and of the
driver manager. Seen in pyodbc 5.5.0, unixODBC 2.3.11 and Microsoft's ODBC Driver 18.6:

    "[42S02] [Microsoft][ODBC Driver 18 for SQL Server][SQL Server]No such object. (208) (SQLExecDirectW)"
    "[01000] [unixODBC][Driver Manager]Can't open lib 'x' : file not found (0) (SQLDriverConnect)"

The second one's SQLSTATE is that of any warning.
"""

from __future__ import annotations

import re

_NUMBER = re.compile(r"\((\d+)\) \(SQL")
_PREFIXES = re.compile(r"^(\[[^\]]*\]\s*)+")
_CALLED = re.compile(r" \(\d+\) \(SQL\w+\)")
_NOT_LOADED = "Can't open lib"


def number_in(text: str) -> int:
    """The server's error number; 0 if the text has none."""
    found = _NUMBER.search(text)
    return int(found[1]) if found else 0


def plain(text: str) -> str:
    """The messages in one line, each once, without who says them and the calls that they went through."""
    parts = (part.strip("; ") for part in _CALLED.split(text.replace("\n", " ")))
    return "; ".join(dict.fromkeys(_PREFIXES.sub("", part) for part in parts if part))


def not_loaded(text: str) -> bool:
    """Whether the driver manager could not load the driver's library."""
    return _NOT_LOADED in text
