"""How the readers reach the server."""

from __future__ import annotations

from adapters.postgres.snapshot.chunk_reader import Jdbc

URL = "jdbc:postgresql://host:5432/base"


def test_properties_that_spark_would_write_small_stand_in_the_url():
    properties = {"user": "u", "password": "secret", "ApplicationName": "tide mark", "options": "-c x=1"}

    assert Jdbc(URL, properties).full_url(None) == f"{URL}?ApplicationName=tide+mark"


def test_a_fetch_of_several_rows_is_bounded():
    assert Jdbc(URL, {"user": "u"}).full_url(7) == f"{URL}?maxResultBuffer=7"
    assert Jdbc(URL, {"user": "u"}).full_url(None) == URL
