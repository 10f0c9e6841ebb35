"""Where the JDBC drivers come from."""

from __future__ import annotations

from adapters.spark.session import drivers


def test_a_driver_that_lies_among_sparks_jars_is_not_fetched(tmp_path):
    (tmp_path / "org.postgresql_postgresql-42.7.14.jar").touch()
    packages = ("org.postgresql:postgresql:42.7.14", "com.microsoft.sqlserver:mssql-jdbc:12.10.2.jre11")
    asked = {"spark.jars.packages": "a:b:1", "spark.jars": "/own.jar", "spark.ui.enabled": "false"}

    assert drivers(packages, asked, tmp_path) == {
        "spark.jars": f"{tmp_path}/org.postgresql_postgresql-42.7.14.jar,/own.jar",
        "spark.jars.packages": "com.microsoft.sqlserver:mssql-jdbc:12.10.2.jre11,a:b:1",
    }


def test_another_version_is_fetched(tmp_path):
    (tmp_path / "org.postgresql_postgresql-42.7.13.jar").touch()

    found = drivers(("org.postgresql:postgresql:42.7.14",), {}, tmp_path)

    assert found == {"spark.jars.packages": "org.postgresql:postgresql:42.7.14"}


def test_nothing_is_set_where_nothing_is_needed(tmp_path):
    assert drivers((), {"spark.jars": "/own.jar"}, tmp_path) == {}
