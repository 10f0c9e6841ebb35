"""Which Spark settings must stay secret, and what protects Spark's ports and files.

Decides which settings stay off the JVM's command line, which every user of the machine can read, and what is
enabled where Spark's processes talk over a network, unless it is explicitly disabled.
"""

from __future__ import annotations

import logging
import secrets
from typing import TYPE_CHECKING, Final

from engine.config.text.hidden import is_secret, without_secrets
from engine.config.text.references import Hidden
from engine.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark import SparkContext

_log = logging.getLogger("adapters")

_AT_LAUNCH: Final = ("spark.driver.", "spark.jars", "spark.submit.", "spark.kerberos.")
"""Settings that only work at the start of the JVM."""
_AUTHENTICATE: Final = "spark.authenticate"
_SHARED: Final = "spark.authenticate.secret"
_SHARED_FILE: Final = "spark.authenticate.secret.file"
_GUARDS: Final[Mapping[str, str]] = {
    _AUTHENTICATE: "true",
    "spark.network.crypto.enabled": "true",
    "spark.io.encryption.enabled": "true",
}
_OWN_SECRETS: Final = ("yarn", "k8s:")
"""Masters that give every application a secret of its own."""


def launched_with(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings to start the JVM with; Spark gets the others once it runs."""
    public = {}
    for name, value in settings.items():
        hidden = is_secret(name, value) or without_secrets(value) != value
        if hidden and not name.startswith(_AT_LAUNCH):
            continue
        if hidden and not _plain(name, value):
            _log.warning(
                "the secret in %r stands in the command line of Spark's JVM, where every user of the machine"
                " can read it",
                name,
            )
        public[name] = value
    return public


def _plain(name: str, value: str) -> bool:
    """Whether a value is hidden only because it came from a reference."""
    text = str(value)
    return isinstance(value, Hidden) and not is_secret(name, text) and without_secrets(text) == text


def guards(master: str, settings: Mapping[str, str]) -> dict[str, str]:
    """More settings for a master: authentication and encryption, unless `settings` disable them.

    Raises ConfigError if the secret is missing that all processes of a cluster must share.
    """
    if not _is_network(master):
        return {}
    given = {name.lower(): value for name, value in settings.items()}
    added = {name: value for name, value in _GUARDS.items() if name not in settings}
    if given.get(_AUTHENTICATE, "true").strip().lower() != "true":
        # Encryption on the network needs the keys from authentication.
        added.pop("spark.network.crypto.enabled", None)
        return added
    if master.startswith("local-cluster"):
        return added | ({} if _SHARED in settings else {_SHARED: secrets.token_hex(32)})
    if not master.startswith(_OWN_SECRETS) and not {_SHARED, _SHARED_FILE} & settings.keys():
        raise ConfigError(
            f"missing 'tidemark.spark.conf.{_SHARED}': the processes of {master!r} authenticate by it",
            hint="give it the secret of the cluster's daemons, by a reference,"
            f" or switch authentication off: tidemark.spark.conf.{_AUTHENTICATE}=false",
        )
    return added


def warn_of_open(context: SparkContext) -> None:
    """Warn of what is disabled in a session that was made by somebody else or by spark-submit."""
    if not _is_network(str(context.master)):
        return
    conf = context.getConf()
    off = [name for name in _GUARDS if str(conf.get(name, "false")).strip().lower() != "true"]
    if off:
        _log.warning("Spark's processes speak to each other unprotected: %s not on", ", ".join(off))


def _is_network(master: str) -> bool:
    return not master.startswith("local") or master.startswith("local-cluster")
