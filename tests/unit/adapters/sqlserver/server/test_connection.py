"""How settings become connections of the two drivers, and what becomes of their errors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import mssql_python_odbc
import pytest
from sqlalchemy.exc import DBAPIError, OperationalError

from adapters.sqlserver.server import connection
from adapters.sqlserver.server.connection import JDBC_DRIVER, Server, jdbc_url, odbc_string, odbc_token, reach
from adapters.sqlserver.server.failures import lock_waited_for, native_number, source_errors, table_errors
from adapters.sqlserver.settings import Encryption, SqlServerSettings
from engine.config.text.references import resolve
from engine.errors import ConfigError, LoginRefused, LogRemoved, SchemaChanged, SourceError, TableBusy
from engine.model import CollectionId
from tests.servers.port import free_port
from tests.thrown import Thrown, failed_job

SETTINGS = SqlServerSettings("db.example", "sa", ("shop",), "p;w}d")
TABLE = CollectionId(("shop", "dbo", "t"))


def told(settings: SqlServerSettings) -> dict[str, str]:
    """The words of the ODBC driver's connection string."""
    text, words = odbc_string(settings, "shop"), {}
    while text:
        name, _, rest = text.partition("={")
        end = 0
        while rest[end : end + 2] == "}}" or rest[end] != "}":
            end += 2 if rest[end : end + 2] == "}}" else 1
        words[name], text = rest[:end].replace("}}", "}"), rest[end + 2 :]
    return words


def jdbc(settings: SqlServerSettings) -> dict[str, str]:
    return dict(reach(settings).jdbc("shop", "SELECT 1 AS one").properties)


@pytest.mark.parametrize(
    ("encrypt", "trust", "odbc", "java"),
    [
        (Encryption.OPTIONAL, False, ("no", "no"), ("false", "false")),
        (Encryption.MANDATORY, True, ("yes", "yes"), ("true", "true")),
        (Encryption.STRICT, False, ("strict", "no"), ("strict", "false")),
    ],
)
def test_both_drivers_are_told_the_same_of_encryption_and_trust(encrypt, trust, odbc, java):
    settings = replace(SETTINGS, encrypt=encrypt, trust_server_certificate=trust)

    words, properties = told(settings), jdbc(settings)

    assert (words["Encrypt"], words["TrustServerCertificate"]) == odbc
    assert (properties["encrypt"], properties["trustServerCertificate"]) == java


def test_both_drivers_log_in_by_a_token():
    settings = SqlServerSettings("db.example", "", ("shop",), access_token="t0ken")

    words, properties = told(settings), jdbc(settings)

    assert {"UID", "PWD"}.isdisjoint(words)
    assert odbc_token(settings) == {1256: b"\x0a\x00\x00\x00" + "t0ken".encode("utf-16-le")}
    assert properties["accessToken"] == "t0ken"
    assert {"user", "password"}.isdisjoint(properties)
    assert odbc_token(SETTINGS) == {}


def test_credentials_are_asked_for_at_every_connection(tmp_path):
    file = tmp_path / "password"
    file.write_text("first")
    found, _problems = resolve({"p": f"${{dir:{tmp_path}:password}}"}, {})
    settings = replace(SETTINGS, password=found["p"])
    assert (told(settings)["PWD"], jdbc(settings)["password"]) == ("first", "first")

    file.write_text("second")

    assert (told(settings)["PWD"], jdbc(settings)["password"]) == ("second", "second")


def test_both_drivers_get_the_rest_alike():
    settings = replace(
        SETTINGS,
        certificate_host="*.example",
        server_certificate="/s.pem",
        packet_size=8000,
        multi_subnet_failover=True,
        application="tm {1}",
    )

    words, properties = told(settings), jdbc(settings)

    for name, odbc, java in (
        ("*.example", "HostnameInCertificate", "hostNameInCertificate"),
        ("/s.pem", "ServerCertificate", "serverCertificate"),
        ("8000", "PacketSize", "packetSize"),
        ("tm {1}", "APP", "applicationName"),
        ("sa", "UID", "user"),
        ("p;w}d", "PWD", "password"),
        ("shop", "Database", "databaseName"),
    ):
        assert (words[odbc], properties[java]) == (name, name)
    assert (words["MultiSubnetFailover"], properties["multiSubnetFailover"]) == ("Yes", "true")


def test_what_is_not_said_is_left_to_the_drivers():
    assert "PacketSize" not in told(SETTINGS)
    assert "hostNameInCertificate" not in jdbc(SETTINGS)


@pytest.mark.parametrize(
    ("changes", "odbc", "java"),
    [
        ({}, "tcp:db.example,1433", "jdbc:sqlserver://db.example:1433"),
        ({"instance": "i", "port": 0}, "tcp:db.example\\i", "jdbc:sqlserver://db.example\\i"),
        ({"instance": "i", "port": 1444}, "tcp:db.example,1444", "jdbc:sqlserver://db.example:1444"),
    ],
)
def test_an_instance_is_looked_up_unless_its_port_is_known(changes, odbc, java):
    settings = replace(SETTINGS, **changes)

    assert told(settings)["Server"] == odbc
    assert jdbc_url(settings) == java


def test_the_password_is_in_no_repr_and_no_address():
    way = reach(SETTINGS)
    query = way.jdbc("shop", "SELECT 1 AS one")

    assert "p;w}d" not in repr(way) + repr(query) + query.url + str(way.engine("shop").url)
    assert query.driver == JDBC_DRIVER


def driver_library() -> str:
    folder = Path(mssql_python_odbc.get_libs_dir()) / "linux" / "debian_ubuntu"
    return str(next(folder.glob("*/lib/libmsodbcsql*")))


def test_microsofts_driver_says_that_nobody_listens():
    settings = replace(
        SETTINGS, host="127.0.0.1", port=free_port(), odbc_driver=driver_library(), login_timeout_s=1
    )

    with pytest.raises(SourceError, match="shop: connecting failed: Login timeout expired") as caught:
        Server(reach(settings)).check("shop")
    assert "database.port" in str(caught.value)
    assert "p;w}d" not in str(caught.value)


def test_a_driver_that_is_not_there_is_a_fault_of_the_settings():
    settings = replace(SETTINGS, odbc_driver="No Such Driver")

    with pytest.raises(ConfigError, match="No Such Driver") as caught:
        Server(reach(settings)).check("shop")
    assert "tidemark.sqlserver.odbc.driver" in str(caught.value)


def test_what_is_set_for_a_query_stands_in_its_batch_and_not_in_one_of_its_own():
    made = reach(SETTINGS).jdbc("shop", "SELECT 1 AS one", ("SET LOCK_TIMEOUT 5", "SET NOCOUNT ON"))

    assert made.properties["prepareQuery"] == "SET LOCK_TIMEOUT 5; SET NOCOUNT ON;"
    assert "sessionInitStatement" not in made.properties
    assert "prepareQuery" not in jdbc(SETTINGS)


@pytest.mark.parametrize(("timeout_ms", "seconds"), [(0, None), (1, "1"), (600_000, "600"), (600_001, "601")])
def test_a_query_s_longest_time_is_spark_s_to_keep(timeout_ms, seconds):
    assert jdbc(replace(SETTINGS, query_timeout_ms=timeout_ms)).get("queryTimeout") == seconds


def test_a_catalog_that_is_locked_makes_what_asks_for_it_wait():
    with pytest.raises(TableBusy) as caught, source_errors("reading the catalog", "shop"):
        raise failure(1222, "Lock request time out period exceeded.")

    assert caught.value.where == "shop"


def failure(number: int, said: str, state: str = "42000") -> DBAPIError:
    words = (
        f"[{state}] [Microsoft][ODBC Driver 18 for SQL Server][SQL Server]{said} ({number}) (SQLExecDirectW)"
    )
    return OperationalError("SELECT 'secret row value'", (), Exception(state, words))


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (313, LogRemoved),
        (3952, ConfigError),
        (208, SchemaChanged),
        (3961, SchemaChanged),
        (1222, TableBusy),
        (601, TableBusy),
        (1205, SourceError),
        (18456, LoginRefused),
    ],
)
def test_the_servers_numbers_decide_what_an_error_is(number, expected):
    with pytest.raises((SourceError, ConfigError)) as caught, table_errors("reading", TABLE):
        raise failure(number, "something")

    assert type(caught.value) is expected
    assert "secret row value" not in str(caught.value)


def test_messages_that_hold_values_are_not_shown():
    with pytest.raises(SourceError) as caught, source_errors("reading", "shop"):
        raise failure(2627, "Violation of PRIMARY KEY. The duplicate key value is (Smith)")

    assert "Smith" not in str(caught.value)
    assert "2627" in str(caught.value)


def test_all_that_a_driver_says_is_told_in_one_line():
    called, vendor = "(0) (SQLDriverConnect)", "[Microsoft][ODBC Driver 18 for SQL Server]"
    said = f"[HYT00] {vendor}Login timeout expired {called}; [08001] {vendor}Unable to connect {called}"

    with pytest.raises(SourceError) as caught, source_errors("connecting", "shop"):
        raise OperationalError("x", (), Exception("HYT00", said))

    assert "Login timeout expired; Unable to connect" in str(caught.value)
    assert native_number(failure(26, "x")) == 26


class Pyodbc:
    """The driver's module and its connection: hands texts to the converters that it is given."""

    SQL_WCHAR, SQL_WVARCHAR, SQL_WLONGVARCHAR = -8, -9, -10

    def __init__(self) -> None:
        self.converters: dict[int, Callable[[bytes], str]] = {}
        self.timeout = 0

    def connect(self, *_words: object, **_options: object) -> Pyodbc:
        return self

    def add_output_converter(self, kind: int, converter: Callable[[bytes], str]) -> None:
        self.converters[kind] = converter

    def texts(self, raw: bytes) -> set[str]:
        """What a column of each kind shows."""
        strict = partial(str, encoding="utf-16-le")
        return {self.converters.get(kind, strict)(raw) for kind in (-8, -9, -10)}


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("a\U0001f600é\0".encode("utf-16-le"), "a\U0001f600é\0"),
        (b"a\x00\x3d\xd8", "a?"),
        (b"\x00\xdea\x00", "?a"),
        (b"\x3d\xd8\x3d\xd8\x00\xde", "?\U0001f600"),
        (b"", ""),
    ],
)
def test_half_a_surrogate_pair_is_read_as_java_writes_it(
    monkeypatch: pytest.MonkeyPatch, raw: bytes, text: str
):
    driver = Pyodbc()
    monkeypatch.setattr(connection, "_pyodbc", lambda: driver)
    reach(SETTINGS).engine("shop").pool._creator()  # type: ignore[call-arg]

    assert driver.texts(raw) == {text}


@pytest.mark.parametrize(("number", "waited"), [(1222, True), (208, False), (None, False)])
def test_a_lock_that_spark_waited_for_is_known_by_its_number_in_any_language(number, *, waited: bool):
    codes = {} if number is None else {"number": number}
    said = Thrown("com.microsoft.sqlserver.jdbc.SQLServerException", "Zeit\u00fcberschreitung", **codes)

    assert lock_waited_for(failed_job(said)) is waited


@pytest.mark.parametrize(
    ("state", "statement", "hinted"),
    [
        ("HYT00", None, True),
        ("08001", None, True),
        ("HYT00", "SELECT 1", False),
        ("HY000", None, False),
    ],
)
def test_an_address_is_doubted_where_nobody_has_answered_a_login(state, statement, *, hinted: bool):
    error = OperationalError(
        statement, (), Exception(state, f"[{state}] [Microsoft]Expir\u00e9 (0) (SQLConnect)")
    )

    with pytest.raises(SourceError) as caught, source_errors("connecting", "shop"):
        raise error
    assert ("database.port" in caught.value.hint) is hinted


def test_a_driver_that_the_driver_manager_does_not_know_is_a_fault_of_the_settings():
    error = OperationalError(
        None, (), Exception("IM002", "[IM002] [unixODBC]Unbekannt (0) (SQLDriverConnect)")
    )

    with (
        pytest.raises(ConfigError, match="the ODBC driver can't be used"),
        source_errors("connecting", "shop"),
    ):
        raise error
