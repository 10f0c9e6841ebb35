"""How the readers reach the server, and what its driver refuses."""

from __future__ import annotations

import pytest

from adapters.postgres.snapshot.chunk_reader import Jdbc, _too_large
from tests.thrown import Thrown, failed_job

URL = "jdbc:postgresql://host:5432/base"


def test_properties_that_spark_would_write_small_stand_in_the_url():
    properties = {"user": "u", "password": "secret", "ApplicationName": "tide mark", "options": "-c x=1"}

    assert Jdbc(URL, properties).full_url(None) == f"{URL}?ApplicationName=tide+mark"


def test_a_fetch_of_several_rows_is_bounded():
    assert Jdbc(URL, {"user": "u"}).full_url(7) == f"{URL}?maxResultBuffer=7"
    assert Jdbc(URL, {"user": "u"}).full_url(None) == URL


@pytest.mark.parametrize(
    ("name", "state", "refused"),
    [
        ("org.postgresql.util.PSQLException", "08S01", True),
        ("org.postgresql.util.PSQLException", "08006", False),
        ("com.microsoft.sqlserver.jdbc.SQLServerException", "08S01", False),
    ],
)
def test_a_fetch_beyond_the_bound_has_an_sqlstate_of_its_own(name: str, state: str, *, refused: bool):
    said = "Der Ergebnissatz hat maxResultBuffer überschritten"

    assert _too_large(failed_job(Thrown(name, said, state=state, number=0))) is refused
