"""The settings of the job's own web server, and of the OpenLineage events that it posts, as values."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """The job's own web server. `port` -1: there is none; 0: any free port.

    `host` is the address to listen on, `hosts` are further names by which it may be addressed. With `control`
    its page can send signals. The files of `certificate`, `key` and `client_ca` are in PEM. Empty: no TLS,
    the key is in the certificate's file, clients need no certificate.
    """

    port: int = -1
    host: str = "127.0.0.1"
    hosts: tuple[str, ...] = ()
    token: str = field(default="", repr=False)
    certificate: str = ""
    key: str = ""
    client_ca: str = ""
    control: bool = False

    @property
    def on(self) -> bool:
        """Whether there is a server."""
        return self.port >= 0

    @property
    def local(self) -> bool:
        """Whether only this machine can reach it."""
        return is_loopback(self.host)


@dataclass(frozen=True, slots=True)
class LineageSettings:
    """Where OpenLineage events go; an empty address: nowhere. It may hold a secret."""

    url: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    namespace: str = "tidemark"


def is_loopback(host: str) -> bool:
    """Whether an address is of this machine alone."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
