"""The cases of Debezium's tests on SQL Server itself, from Microsoft's images; only where there is Docker.

`make test-sqlserver` runs them. They are those of `check_debezium_*.py`, which ask the stand-in elsewhere.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, cast

import pytest

from tests.debezium_subjects import OnSqlServer
from tests.integration import check_debezium_blocking as blocking
from tests.integration import check_debezium_cases as cases
from tests.integration import check_debezium_signals as signals
from tests.integration.test_sqlserver_containers import contained, pytestmark, shop, sqlserver

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from types import ModuleType

    from pyspark.sql import SparkSession

    from tests.servers.sqlserver import SqlServer, StandInDatabase
    from tests.servers.sqlserver.contained import ContainedDatabase, ContainedSqlServer

__all__ = ["contained", "pytestmark", "shop", "sqlserver"]


@pytest.fixture
def subject(
    sqlserver: ContainedSqlServer, shop: ContainedDatabase, tmp_path: Path, spark: SparkSession
) -> OnSqlServer:
    return OnSqlServer(cast("SqlServer", sqlserver), cast("StandInDatabase", shop), tmp_path, spark)


@pytest.fixture
def relational(subject: OnSqlServer) -> OnSqlServer:
    return subject


def _asks(test: Callable[..., Any]) -> bool:
    """Whether a test is about any source with tables."""
    return not {"subject", "relational"}.isdisjoint(inspect.signature(test).parameters)


def _tests(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """The functions and classes of such tests."""
    for name, value in vars(module).items():
        if name.startswith("test_") and _asks(value):
            yield name, value
        elif name.startswith("Test"):
            methods = [method for method in vars(value).values() if inspect.isfunction(method)]
            if any(_asks(method) for method in methods):
                yield name, value


for _module in (cases, signals, blocking):
    for _name, _value in _tests(_module):
        if _name in globals():
            raise RuntimeError(f"two tests of one name: {_name}")
        globals()[_name] = _value
