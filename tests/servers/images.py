"""Whether Docker is available, for the suites that use images."""

from __future__ import annotations

import os
from pathlib import Path

import docker
from docker.errors import DockerException


def docker_answers() -> bool:
    if "DOCKER_HOST" not in os.environ and not Path("/var/run/docker.sock").exists():
        return False
    try:
        client = docker.from_env()
    except DockerException:
        return False
    try:
        return bool(client.ping())
    except DockerException:
        return False
    finally:
        client.close()
