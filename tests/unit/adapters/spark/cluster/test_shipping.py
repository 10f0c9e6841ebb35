"""What a cluster's executors get from the driver."""

from __future__ import annotations

import pytest

from adapters.spark.cluster.shipping import executors_python, shipped


@pytest.mark.parametrize("master", ["local", "local[4]", "local-cluster[2,1,1024]"])
def test_one_machine_gets_nothing(master):
    assert shipped(master, {}) == {}


@pytest.mark.parametrize("master", ["spark://m:7077", "yarn", "k8s://https://c:6443"])
def test_a_cluster_gets_the_archive_and_where_python_finds_it(master):
    added = shipped(master, {}, "s3a://b/tidemark.tar.gz")

    assert added["spark.archives"] == "s3a://b/tidemark.tar.gz#tidemark"
    assert added["spark.executorEnv.PYTHONPATH"] == "tidemark"


def test_archives_and_paths_of_the_user_stay():
    given = {"spark.archives": "data.zip#data", "spark.executorEnv.PYTHONPATH": "/opt/lib"}
    added = shipped("yarn", given, "a.tar.gz")

    assert added["spark.archives"] == "data.zip#data,a.tar.gz#tidemark"
    assert added["spark.executorEnv.PYTHONPATH"] == "tidemark:/opt/lib"


def test_an_archive_that_the_user_ships_is_taken_as_it_is():
    added = shipped("yarn", {"spark.archives": "mine.tar.gz#tidemark"})

    assert "spark.archives" not in added


def test_executors_that_have_the_application_get_none():
    added = shipped("k8s://https://c:6443", {}, "none")

    assert "spark.archives" not in added
    assert "spark.executorEnv.PYTHONPATH" not in added
    assert added["spark.speculation"] == "false"


def test_settings_of_the_user_stay():
    added = shipped("yarn", {"spark.speculation": "true", "spark.archives": "a#tidemark"})

    assert "spark.speculation" not in added
    assert added["spark.locality.wait"] == "300ms"


def test_the_drivers_jvm_has_the_quick_compiler_alone_unless_the_user_says_otherwise():
    name = "spark.driver.extraJavaOptions"

    assert "TieredStopAtLevel=1" in shipped("yarn", {}, "none")[name]
    assert name not in shipped("yarn", {name: "-Xlog:gc"}, "none")


@pytest.mark.parametrize(
    ("setting", "environment", "expected"),
    [(None, None, "python3"), (None, "/env/py", "/env/py"), ("/opt/py", "/env/py", "/opt/py")],
)
def test_the_executors_python_is_the_settings_then_the_environments(setting, environment, expected):
    settings = {"spark.pyspark.python": setting} if setting else {}
    environment = {"PYSPARK_PYTHON": environment} if environment else {}

    assert executors_python(settings, environment, "python3") == expected
