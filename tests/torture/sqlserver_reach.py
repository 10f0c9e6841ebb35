"""The way to the SQL Server stand-in from the job's own process: by its host, port and password."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from adapters.spark.session import POSTGRES_JDBC
from adapters.sqlserver.job import job_of
from tests.servers.elsewhere import Elsewhere
from tests.servers.sqlserver import SqlServer, StandInDatabase

if TYPE_CHECKING:
    from collections.abc import Callable

    from adapters.sqlserver.server.connection import Reach
    from adapters.sqlserver.settings import SqlServerSettings
    from tests.servers.postgres import PostgresServer


def reach(settings: SqlServerSettings) -> Reach:
    """The way to the databases of the settings."""
    there = cast("PostgresServer", Elsewhere(settings.host, settings.port, settings.user, settings.password))
    server = SqlServer(on=there)
    server.databases = {name: StandInDatabase(server, there, name) for name in settings.databases}
    return server.reach


_JOB = replace(job_of(reach), packages=(POSTGRES_JDBC,))
building_on_stand_in: Callable[..., Any] = _JOB.building
"""Builds a job on the stand-in."""
run_on_stand_in: Callable[..., Any] = _JOB.run
"""Runs one."""
