r"""The address of a SQL Server whose tables somebody else keeps, as Microsoft's JDBC driver writes it.

    jdbc:sqlserver://host[\instance][:port];databaseName=name;option=value;option={a value with ; in it}

Options have the driver's names, in any case of letters. User and password keep their references.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from engine.config.sinks.postgres_target import ConnectionSettings

_ADDRESS: Final = re.compile(
    r"jdbc:sqlserver://(?P<host>[^\s;:/\\=]+)(?:\\(?P<instance>[\w$#]+))?(?::(?P<port>\d{1,5}))?"
    r"(?P<options>(?:;[^;={}]+=(?:\{(?:[^}]|\}\})*\}|[^;{}]*))*);?"
)
_OPTION: Final = re.compile(r";([^;={}]+)=(?:\{((?:[^}]|\}\})*)\}|([^;{}]*))")
_STANDARD_PORT: Final = 1433
_FLAG: Final = {"true": "true", "false": "false"}
_ENCRYPTION: Final = {
    **{word: word for word in ("optional", "mandatory", "strict")},
    **dict.fromkeys(("true", "yes"), "mandatory"),
    **dict.fromkeys(("false", "no"), "optional"),
}


def _number(word: str) -> str:
    return word if word.isdecimal() else ""


_OPTIONS: Final[Mapping[str, Callable[[str], str]]] = {
    **dict.fromkeys(
        (
            *("applicationName", "database", "databaseName", "hostNameInCertificate", "instanceName"),
            *("password", "serverCertificate", "user", "userName"),
        ),
        str,
    ),
    **dict.fromkeys(("loginTimeout", "packetSize", "port", "portNumber"), _number),
    **dict.fromkeys(
        ("multiSubnetFailover", "trustServerCertificate"), lambda word: _FLAG.get(word.lower(), "")
    ),
    "encrypt": lambda word: _ENCRYPTION.get(word.lower(), ""),
}
"""What each option's text means; empty: nothing."""
_NAMES: Final = {name.lower(): name for name in _OPTIONS}
_SYNONYMS: Final = {"database": "databaseName", "port": "portNumber", "userName": "user"}


@dataclass(frozen=True, slots=True)
class SqlServerTarget:
    """A database of a SQL Server. `port` 0: the host is asked for it, by the `instance`.

    `options` are the other ones of the address: flags are true or false, `encrypt` is optional, mandatory or
    strict. `table_format` gives a table's schema and name.
    """

    host: str
    database: str
    port: int = _STANDARD_PORT
    instance: str = ""
    user: str = ""
    password: str = field(default="", repr=False)
    options: Mapping[str, str] = field(default_factory=dict)
    table_format: str = "${source.schema}.${source.table}"


def is_sqlserver(address: str) -> bool:
    """Whether an address is that of a SQL Server."""
    return _ADDRESS.fullmatch(address) is not None


def sqlserver_target(connecting: ConnectionSettings, problems: list[str]) -> SqlServerTarget:
    """The database at an address. What is wrong with its options is added to the problems."""
    found = _ADDRESS.fullmatch(connecting.address)
    given = dict(_given(connecting, found["options"] if found else "", problems))
    host, instance, port = found.group("host", "instance", "port") if found else ("", None, None)
    user, password = (given.pop(name, "") for name in ("user", "password"))
    instance = given.pop("instanceName", instance or "")
    port = given.pop("portNumber", port or ("0" if instance else str(_STANDARD_PORT)))
    database = given.pop("databaseName", "")
    if not database:
        problems.append(f"{connecting.setting!r} lacks the parameter 'databaseName'")
    login = connecting.user or user, connecting.password or password
    return SqlServerTarget(host, database, int(port), instance, *login, given)


def _given(connecting: ConnectionSettings, options: str, problems: list[str]) -> Iterator[tuple[str, str]]:
    """The options that can be used, by their first names."""
    for option in _OPTION.finditer(options):
        name = _NAMES.get(option[1].strip().lower(), "")
        word = option[3] if option[2] is None else option[2].replace("}}", "}")
        if not name:
            known = ", ".join(sorted(_OPTIONS))
            problems.append(
                f"{connecting.setting!r} has an unknown parameter {option[1].strip()!r}; known: {known}"
            )
        elif meaning := _OPTIONS[name](word):
            yield _SYNONYMS.get(name, name), meaning
        else:
            problems.append(
                f"{connecting.setting!r} has a parameter {name!r} with a value that it can't have"
            )
