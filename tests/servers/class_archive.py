"""An archive of the classes that Spark loads, with which the JVMs of the tests start in half the time.

Half of what a JVM of Spark does before its first job is loading and verifying classes. Java can write them to
a file and map that file into later JVMs ("class data sharing"). A JVM ignores an archive that another Java or
another PySpark has written.

`make test` writes the archive to `.cache` once, with `python -m tests.servers.class_archive`. Without it, the
tests only take longer.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from shlex import quote

from tests.servers.maven import CACHE, one_process_at_a_time, package_folder

_LOAD = "load"


def option() -> str:
    """What tells a JVM to use the archive; empty if there is none."""
    found = _path()
    return f"{quote(f'-XX:SharedArchiveFile={found}')} -Xlog:cds=off" if found and found.exists() else ""


def write() -> None:
    """Write the archive unless it is there. Says so if that fails."""
    path = _path()
    if path is None:
        return
    with one_process_at_a_time("class-archive"):
        if not path.exists():
            partial = path.with_suffix(".partial")
            archive = quote(f"-XX:ArchiveClassesAtExit={partial}")
            options = f"-XX:TieredStopAtLevel=1 {archive} -Xlog:cds=off"
            command = [sys.executable, "-m", "tests.servers.class_archive", _LOAD]
            done = subprocess.run(
                command,
                env=os.environ | {"SPARK_SUBMIT_OPTS": options},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
            if done.returncode != 0 or not partial.exists():
                print(f"the tests will take longer: Java wrote no archive of classes: {done.stdout[-2000:]}")
                return
            partial.rename(path)


def load_classes() -> None:
    """Have a JVM load what a job of the tests needs, and end."""
    from pyspark.sql.functions import col  # noqa: PLC0415  a start of the tests needs none of this

    from adapters.spark.exceptions import SPARK_ERRORS  # noqa: PLC0415
    from adapters.spark.session import POSTGRES_JDBC, spark_session  # noqa: PLC0415

    session = spark_session("local[2]", {}, (POSTGRES_JDBC,))
    numbers = session.range(100).select((col("id") % 7).alias("k"), col("id").cast("string").alias("v"))
    numbers.mapInArrow(lambda batches: batches, numbers.schema).groupBy("k").count().collect()
    session.sparkContext.parallelize([b""]).map(len).collect()
    with suppress(*SPARK_ERRORS):  # nobody listens there; the driver's classes are loaded all the same
        session.read.jdbc("jdbc:postgresql://127.0.0.1:1/none", "t").collect()
    java = session.sparkContext._gateway.proc  # type: ignore[union-attr]  # there is no public way
    session.stop()
    java.stdin.close()
    java.wait()  # it writes the archive when it ends


def _path() -> Path | None:
    """Where the archive for this Java and this PySpark is; None without Java."""
    java = shutil.which("java")
    if java is None:
        return None
    used = f"{Path(java).resolve()}\n{package_folder('pyspark')}\n{version('pyspark')}"
    return CACHE / f"spark-classes-{hashlib.sha256(used.encode()).hexdigest()[:12]}.jsa"


if __name__ == "__main__":
    load_classes() if sys.argv[1:] == [_LOAD] else write()
