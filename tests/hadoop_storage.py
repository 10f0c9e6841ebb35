"""The local file system reached as any other of Hadoop's is: through the JVM."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adapters.storage.directory import HadoopStorage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def through_hadoop(spark: SparkSession, directory: str, *, renames: bool) -> HadoopStorage:
    """A directory of this machine; in an object store's clothes if not `renames`."""
    assert spark._jvm is not None
    path_type = spark._jvm.org.apache.hadoop.fs.Path
    root = path_type(directory)
    system = root.getFileSystem(spark._jsc.hadoopConfiguration()).getRawFileSystem()
    return HadoopStorage(system, path_type, system.makeQualified(root), renames=renames)
