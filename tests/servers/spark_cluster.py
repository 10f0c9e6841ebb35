"""A standalone Spark cluster whose workers share no disk with the driver.

Each worker runs in a mount namespace of its own, as on another machine. It has Spark and a bare Python.
Everything else that a job uses is an empty directory there: the project, its environment, the temporary
directory, the home's caches.
"""

from __future__ import annotations

import os
import secrets
import shlex
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import pyspark

from tests.servers.port import free_port
from tests.servers.running import Running

_STARTED_WITHIN_S = 60.0
_ENDED_WITHIN_S = 10.0
_PROJECT = Path(__file__).resolve().parents[2]


class SparkCluster(Running):
    """A master and workers. Raises AssertionError where `unshare` may not be used.

    Each worker has room for `each` executors of one core, and `disk` of it. Its files are in memory; None: on
    this machine's disk, in directories of its own.
    """

    def __init__(
        self, workers: int = 2, *, each: int = 1, executor_memory: str = "512m", disk: str | None = "3g"
    ) -> None:
        self._each, self._disk = each, disk
        self._count, self._executor_memory = workers, executor_memory
        self._port, self._secret = free_port(), secrets.token_hex(16)
        # Not below the temporary directory, which workers don't see.
        self._directory = Path(tempfile.mkdtemp(prefix="tidemark-cluster-", dir="/var/tmp"))
        self._processes: list[subprocess.Popen[bytes]] = []

    @property
    def url(self) -> str:
        """The master's URL."""
        return f"spark://127.0.0.1:{self._port}"

    @property
    def settings(self) -> dict[str, str]:
        """The Spark settings of a job on this cluster."""
        return {
            "spark.authenticate.secret": self._secret,
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.executor.memory": self._executor_memory,
            "spark.executor.cores": "1",
            "spark.pyspark.python": str(self._python),
            # Executors at one address read each other's files from disk, which these can't.
            "spark.shuffle.readHostLocalDisk": "false",
        }

    @property
    def _python(self) -> Path:
        return self._directory / "python" / "bin" / f"python{sysconfig.get_python_version()}"

    def start(self) -> None:
        """Start master and workers, and wait until all workers are registered."""
        self._refuse_without_namespaces()
        self._configuration.write_text(
            f"spark.authenticate true\nspark.authenticate.secret {self._secret}\n"
            "spark.network.crypto.enabled true\nspark.master.rest.enabled false\n"
            # Each executor unpacks the application, 300 MB, in its working directory. Those of applications
            # that have ended go.
            "spark.worker.cleanup.enabled true\nspark.worker.cleanup.interval 5\n"
            "spark.worker.cleanup.appDataTtl 1\n",
            "ascii",
        )
        self._spawn(
            "master", self._spark_class("master.Master", f"--port {self._port} --webui-port {free_port()}")
        )
        self._until(lambda: "I have been elected leader" in self._log("master"))
        for number in range(self._count):
            self.add_worker(number)
        for number in range(self._count):
            self._until(lambda name=f"worker-{number}": "Successfully registered" in self._log(name))

    def add_worker(self, number: int) -> None:
        """Start a worker of this number."""
        name = f"worker-{number}"
        work = (
            f"--cores {self._each} --memory {self._each}g --work-dir {self._directory}/work"
            f" --webui-port {free_port()}"
        )
        self._spawn(
            name,
            f"{self._alone(number)} {self._spark_class('worker.Worker', f'{work} {self.url}')}",
            apart=True,
        )

    def executors(self) -> list[int]:
        """The process ids of the executors' JVMs."""
        found = {pid for pid in self._descendants() if "CoarseGrainedExecutorBackend" in _command(pid)}
        # A process that a JVM is about to start has its command for a moment.
        return sorted(pid for pid in found if _parent(pid) not in found)

    def kill_executor(self) -> int:
        """Kill the JVM of one executor, and return its process id. What it has unpacked goes with it."""
        until_s = time.monotonic() + _STARTED_WITHIN_S
        while not (found := self.executors()):
            assert time.monotonic() < until_s, "no executor to kill"
            time.sleep(0.05)
        pid = found[0]
        worker, directory = _parent(pid), _working_directory(pid)
        os.kill(pid, signal.SIGKILL)
        if worker and directory:
            shutil.rmtree(f"/proc/{worker}/root{directory}", ignore_errors=True)
        return pid

    def workers(self) -> list[int]:
        """The process ids of the Python workers, without the daemons that start them."""
        daemons = {pid for pid in self._descendants() if "pyspark.daemon" in _command(pid)}
        return [pid for pid in daemons if _parent(pid) in daemons]

    def kill_workers(self) -> None:
        """Kill all Python workers."""
        self._signal_workers(signal.SIGKILL)

    def freeze_workers(self) -> None:
        """Let no Python worker of this moment run any more."""
        self._signal_workers(signal.SIGSTOP)

    def _signal_workers(self, number: signal.Signals) -> None:
        for pid in self.workers():
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def logs(self) -> str:
        """What master and workers wrote last."""
        return "\n".join(
            f"--- {path.name}\n{path.read_text()[-3000:]}" for path in self._directory.glob("*.log")
        )

    def close(self) -> None:
        """End all processes."""
        for process in reversed(self._processes):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        for pid in self._descendants():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        until_s = time.monotonic() + _ENDED_WITHIN_S
        while self._descendants() and time.monotonic() < until_s:
            time.sleep(0.05)
        self._processes = []
        shutil.rmtree(self._directory, ignore_errors=True)

    @property
    def _configuration(self) -> Path:
        return self._directory / "cluster.conf"

    @staticmethod
    def _refuse_without_namespaces() -> None:
        tried = subprocess.run([*_UNSHARE, "true"], capture_output=True, check=False)
        assert tried.returncode == 0, (
            "a cluster's workers need mount namespaces, and this process may not make any: "
            f"{tried.stderr.decode().strip()}; run as root, or in a container with CAP_SYS_ADMIN"
        )

    def _spark_class(self, name: str, arguments: str) -> str:
        spark = self._directory / "spark" if name.startswith("worker") else Path(pyspark.__file__).parent
        return (
            f"{spark}/bin/spark-class org.apache.spark.deploy.{name}"
            f" --properties-file {self._configuration} --host 127.0.0.1 {arguments}"
        )

    def _alone(self, number: int) -> str:
        """Commands that leave the worker with Spark and a bare Python alone."""
        here = self._directory
        spark, python = Path(pyspark.__file__).parent, Path(sys.base_prefix)
        hidden = {
            _PROJECT,
            Path(sys.prefix).resolve(),
            Path(tempfile.gettempdir()).resolve(),
            Path.home() / ".ivy2",
        }
        hidden |= {Path.home() / ".ivy2.5.2", Path.home() / ".cache", spark.resolve().parent}
        bound = ((spark, here / "spark"), (python, here / "python"))
        lines = [
            f"mkdir -p {there} && mount --bind {shlex.quote(str(path))} {there}" for path, there in bound
        ]
        packages = [here / "python" / path.relative_to(python) for path in _packages_of(python)]
        others = sorted(path for path in hidden if path.is_dir())
        # What lies below another one is hidden with it.
        others = [path for path in others if not any(path.is_relative_to(other) for other in hidden - {path})]
        own = [here / "work", here / "local"]
        lines.append(f"mkdir -p {here}/work {here}/local")
        if self._disk is None:
            private = [here / f"disk-{number}" / path.name for path in own]
            lines += [
                f"mkdir -p {there} && mount --bind {there} {path}"
                for there, path in zip(private, own, strict=True)
            ]
            own = []
        size = self._disk or "1g"
        covered = [*packages, *others, *own]
        lines += [f"mount -t tmpfs -o size={size} none {shlex.quote(str(path))}" for path in covered]
        lines += [f"cd {here}/work", "exec"]
        return " && ".join(lines)

    def _spawn(self, name: str, command: str, *, apart: bool = False) -> None:
        home = self._directory / "spark" if apart else Path(pyspark.__file__).parent
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(Path.home()),
            "SPARK_HOME": str(home),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": f"{self._directory}/local" if apart else str(self._directory),
        }
        environment |= {
            name: os.environ[name] for name in ("JAVA_HOME", "SPARK_SUBMIT_OPTS") if name in os.environ
        }
        with (self._directory / f"{name}.log").open("ab") as log:
            started = subprocess.Popen(
                [*(_UNSHARE if apart else ()), "sh", "-c", command],
                env=environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._processes.append(started)

    def _until(self, condition: object) -> None:
        deadline = time.monotonic() + _STARTED_WITHIN_S
        while not condition():  # type: ignore[operator]  # a lambda with a default
            assert time.monotonic() < deadline, self.logs()
            assert all(process.poll() is None for process in self._processes), self.logs()
            time.sleep(0.1)

    def _log(self, name: str) -> str:
        return (self._directory / f"{name}.log").read_text()

    def _descendants(self) -> list[int]:
        """The processes that name this cluster's directory or its master."""
        mine = (str(self._directory), self.url)
        found = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
        return [pid for pid in found if pid != os.getpid() and any(mark in _command(pid) for mark in mine)]


_UNSHARE = (
    "unshare",
    "--mount",
    "--propagation",
    "private",
    *(() if os.geteuid() == 0 else ("--map-root-user",)),
)


def _packages_of(python: Path) -> list[Path]:
    """Where this Python keeps packages. Debian's has directories of other names."""
    patterns = (
        "lib/python3*/site-packages",
        "lib/python3*/dist-packages",
        "local/lib/python3*/dist-packages",
    )
    return sorted(path for pattern in patterns for path in python.glob(pattern) if path.is_dir())


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def _working_directory(pid: int) -> str:
    """As the process itself sees it; empty if it has ended."""
    try:
        return str(Path(f"/proc/{pid}/cwd").readlink())
    except OSError:
        return ""


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""
