"""What a container of the image becomes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from adapters.spark.cluster.container import command_of
from engine.errors import ConfigError

ROOT = Path(__file__).parents[5]
SPARK = Path("/spark")
EXECUTOR = {
    "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@10.0.0.7:7078",
    "SPARK_EXECUTOR_ID": "3",
    "SPARK_EXECUTOR_CORES": "2",
    "SPARK_APPLICATION_ID": "spark-1",
    "SPARK_EXECUTOR_POD_IP": "10.0.0.8",
    "SPARK_RESOURCE_PROFILE_ID": "0",
    "SPARK_EXECUTOR_POD_NAME": "exec-3",
    "SPARK_EXECUTOR_MEMORY": "2048m",
    "SPARK_CONF_DIR": "/opt/spark/conf",
    "JAVA_HOME": "/java",
}


def test_a_container_is_the_command_tidemark():
    assert command_of(["run", "a.properties"], {}, SPARK) == ["tidemark", "run", "a.properties"]


def test_spark_gets_an_executor():
    command = command_of(["executor"], EXECUTOR, SPARK)

    assert command[:5] == ["/java/bin/java", "-Xms2048m", "-Xmx2048m", "-cp", "/opt/spark/conf:/spark/jars/*"]
    assert command[5] == "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
    told = dict(zip(command[6::2], command[7::2], strict=True))
    assert told["--driver-url"] == EXECUTOR["SPARK_DRIVER_URL"]
    assert told["--podName"] == "exec-3"
    assert told["--resourceProfileId"] == "0"


def test_javas_options_keep_their_order():
    options = {f"SPARK_JAVA_OPT_{number}": f"-Doption={number}" for number in range(12)}
    command = command_of(["executor"], {**EXECUTOR, **options, "SPARK_JAVA_OPT_X": "no number"}, SPARK)

    assert command[3:15] == [f"-Doption={number}" for number in range(12)]


def test_spark_gets_a_driver():
    submitted = ["--properties-file", "/opt/spark/conf/spark.properties", "local:///app.py", "run"]

    bound = command_of(["driver", *submitted], {"SPARK_DRIVER_BIND_ADDRESS": "10.0.0.7"}, SPARK)
    assert bound[0] == "/spark/bin/spark-submit"
    assert bound[1:5] == ["--conf", "spark.driver.bindAddress=10.0.0.7", "--deploy-mode", "client"]
    assert bound[5:] == submitted


def test_an_executor_that_nobody_told_anything_is_refused():
    with pytest.raises(ConfigError, match="SPARK_DRIVER_URL"):
        command_of(["executor"], {}, SPARK)


def test_what_spark_submit_runs_starts():
    """As a script, whose folder is the first on Python's path."""
    script = ROOT / "engine/face/tidemark/__main__.py"
    assert f"{script.relative_to(ROOT)} run orders.properties" in (ROOT / "OPERATIONS.md").read_text()

    done = subprocess.run(
        [sys.executable, str(script), "--help"], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr
