"""What a cluster's executors get from the driver: the application, and settings that tasks elsewhere need.

Executors need nothing but Spark and Python of the driver's version. Drivers' jars go the way of Spark's own
settings (`session.drivers`); this module adds the archive (`archive.py`) and says where Python finds it.
"""

from __future__ import annotations

import atexit
import logging
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from adapters.spark.cluster.archive import DIRECTORY, default_name, write_archive

if TYPE_CHECKING:
    from collections.abc import Mapping

_log = logging.getLogger("adapters")
_ARCHIVES: Final = "spark.archives"
_PYTHONPATH: Final = "spark.executorEnv.PYTHONPATH"
_PYTHON: Final = "spark.pyspark.python"
INSTALLED: Final = "none"
"""In the archive's place: the executors have the application already, as containers of our image have."""
_DEFAULTS: Final[Mapping[str, str]] = {
    # Rows that were staged are read where they are; a busy executor is not waited for long.
    "spark.locality.wait": "300ms",
    # The entries of a large span go to executors with their tasks. In MiB.
    "spark.rpc.message.maxSize": "1024",
    # The driver's JVM only plans and schedules here. Its better compiler takes longer than it saves: of the
    # CPU time of a first snapshot's driver it was half.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    # A second attempt of a task that reads a window would stage other blocks than the first one.
    "spark.speculation": "false",
}


def is_cluster(master: str) -> bool:
    """Whether executors may be on other machines."""
    return not master.startswith("local")


def shipped(master: str, settings: Mapping[str, str], archive: str | None = None) -> dict[str, str]:
    """More settings for a cluster: what to ship, unless `settings` ship an archive already.

    `archive` is a path or URI of one that `tidemark package` has made; None: it is made now. INSTALLED ships
    nothing.
    """
    if not is_cluster(master):
        return {}
    added = {name: value for name, value in _DEFAULTS.items() if name not in settings}
    if archive == INSTALLED or f"#{DIRECTORY}" in settings.get(_ARCHIVES, ""):
        return added
    others = [settings[_ARCHIVES]] if settings.get(_ARCHIVES) else []
    paths = [DIRECTORY, *([settings[_PYTHONPATH]] if settings.get(_PYTHONPATH) else [])]
    added[_ARCHIVES] = ",".join([*others, f"{archive or _made_now()}#{DIRECTORY}"])
    added[_PYTHONPATH] = ":".join(paths)
    return added


def executors_python(settings: Mapping[str, str], environment: Mapping[str, str], default: str) -> str:
    """The Python of the executors. A setting goes before PYSPARK_PYTHON, as in Spark's own commands."""
    return settings.get(_PYTHON) or environment.get("PYSPARK_PYTHON") or default


def _made_now() -> str:
    """An archive for the time that this process runs."""
    directory = tempfile.mkdtemp(prefix="tidemark-archive-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    path = Path(directory) / default_name()
    _log.info("packing the application for the executors; tidemark package does it once for all starts")
    size = write_archive(path)
    _log.info("%s has %d MB", path.name, size >> 20)
    return str(path)
