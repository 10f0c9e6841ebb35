"""What a container of our image runs: the command `tidemark`, or what Spark on Kubernetes asks of an image.

Spark gives an image's entry point one of two words, and the rest in the environment:

    executor    the JVM of an executor; it gets its work from the driver
    driver …    spark-submit in the container of the driver, if Spark has put the driver into the cluster

So executors and job run the same image, and nothing has to be shipped (`tidemark.spark.archive=none`).
Decides the command; `main` becomes it.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyspark

from engine.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_BACKEND: Final = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
_TOLD: Final = {
    "--driver-url": "SPARK_DRIVER_URL",
    "--executor-id": "SPARK_EXECUTOR_ID",
    "--cores": "SPARK_EXECUTOR_CORES",
    "--app-id": "SPARK_APPLICATION_ID",
    "--hostname": "SPARK_EXECUTOR_POD_IP",
    "--resourceProfileId": "SPARK_RESOURCE_PROFILE_ID",
    "--podName": "SPARK_EXECUTOR_POD_NAME",
}
"""An executor's arguments, and the variables in which Spark gives them."""
_MEMORY: Final = "SPARK_EXECUTOR_MEMORY"
_JAVA_OPTION: Final = "SPARK_JAVA_OPT_"
_CLASSES: Final = ("SPARK_CONF_DIR", "SPARK_EXTRA_CLASSPATH", "SPARK_DIST_CLASSPATH", "HADOOP_CONF_DIR")


def command_of(arguments: Sequence[str], environment: Mapping[str, str], spark: Path) -> list[str]:
    """The program to become, with its arguments. `spark` is Spark's home. Raises ConfigError."""
    match [*arguments]:
        case ["executor"]:
            return _executor(environment, spark)
        case ["driver", *submitted]:
            address = environment.get("SPARK_DRIVER_BIND_ADDRESS", "")
            bound = ["--conf", f"spark.driver.bindAddress={address}"] if address else []
            return [str(spark / "bin" / "spark-submit"), *bound, "--deploy-mode", "client", *submitted]
        case others:
            return ["tidemark", *others]


def _executor(environment: Mapping[str, str], spark: Path) -> list[str]:
    missing = [name for name in (*_TOLD.values(), _MEMORY) if not environment.get(name)]
    if missing:
        raise ConfigError(
            f"an executor is started without {', '.join(missing)}",
            hint="only Spark's Kubernetes master starts executors from this image",
        )
    java = Path(environment["JAVA_HOME"]) / "bin" / "java" if environment.get("JAVA_HOME") else Path("java")
    memory = environment[_MEMORY]
    classes = [*filter(None, (environment.get(name) for name in _CLASSES)), f"{spark}/jars/*"]
    told = [word for name, variable in _TOLD.items() for word in (name, environment[variable])]
    options = [f"-Xms{memory}", f"-Xmx{memory}", *_java_options(environment)]
    return [str(java), *options, "-cp", ":".join(classes), _BACKEND, *told]


def _java_options(environment: Mapping[str, str]) -> list[str]:
    """Spark numbers them, and their order may matter."""
    numbered = {
        int(name.removeprefix(_JAVA_OPTION)): option
        for name, option in environment.items()
        if name.startswith(_JAVA_OPTION) and name.removeprefix(_JAVA_OPTION).isdecimal()
    }
    return [numbered[number] for number in sorted(numbered)]


def main() -> None:
    """Become the program. Exits with 2 if the environment lacks what an executor needs."""
    try:
        command = command_of(sys.argv[1:], os.environ, Path(pyspark.__file__).parent)
    except ConfigError as error:
        sys.stderr.write(f"tidemark: {error}\n")
        sys.exit(2)
    os.execvp(command[0], command)  # noqa: S606  the command is made above


if __name__ == "__main__":
    main()
