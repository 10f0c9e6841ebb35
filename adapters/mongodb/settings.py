"""How MongoDB is reached and read, as values: frozen, complete and checked.

Secrets, and mappings that may hold one, are left out of every repr. Times are in ms.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from adapters.mongodb.documents.selection import FieldRule


class CaptureMode(StrEnum):
    """`capture.mode`: whether updates carry the whole document, and events the document before."""

    PLAIN = "change_streams"
    FULL = "change_streams_update_full"
    PRE_IMAGE = "change_streams_with_pre_image"
    FULL_PRE_IMAGE = "change_streams_update_full_with_pre_image"

    @property
    def looks_up(self) -> bool:
        """Whether the server looks up an updated document."""
        return self in {CaptureMode.FULL, CaptureMode.FULL_PRE_IMAGE}

    @property
    def pre_images(self) -> bool:
        """Whether events carry the document before the change, if the collection keeps it."""
        return self in {CaptureMode.PRE_IMAGE, CaptureMode.FULL_PRE_IMAGE}


class CaptureScope(StrEnum):
    """`capture.scope`: what the change stream is opened on."""

    DEPLOYMENT = "deployment"
    DATABASE = "database"
    COLLECTION = "collection"


class Oversize(StrEnum):
    """`cursor.oversize.handling.mode`: what happens to an event that is too large for the server to send.

    Unless events are split, those that are small enough without their pre-image or looked-up document are
    sent without it.
    """

    FAIL = "fail"
    SKIP = "skip"
    SPLIT = "split"


_MEMBERS = re.compile(r"mongodb(?:\+srv)?://(?P<user>[^@/?]*@)?(?P<hosts>[\w.,:\[\]-]+)(?:[/?].*)?")


@dataclass(frozen=True, slots=True)
class MongoSettings:
    """The deployment and its change stream. Either `connection_string` or the older `hosts` is set.

    `target` is the database or `database.collection` of a narrower scope. `matches` are filters of change
    events, as JSON. Times are in ms; 0 for a socket means no limit.
    """

    connection_string: str = field(default="", repr=False)
    hosts: str = field(default="", repr=False)
    user: str = ""
    password: str = field(default="", repr=False)
    oidc_token: str = field(default="", repr=False)
    auth_source: str = "admin"
    tls: bool = False
    any_hostname: bool = False
    connect_timeout_ms: int = 10_000
    socket_timeout_ms: int = 0
    selection_timeout_ms: int = 30_000
    heartbeat_ms: int = 10_000
    capture_mode: CaptureMode = CaptureMode.FULL
    scope: CaptureScope = CaptureScope.DEPLOYMENT
    target: str = ""
    await_ms: int = 100
    fields: tuple[FieldRule, ...] = ()
    matches: tuple[str, ...] = ()
    oversize: Oversize = Oversize.FAIL

    @property
    def address(self) -> str:
        """The members, for people; empty if they can't be told from the credentials for certain."""
        if self.hosts:
            return self.hosts
        found = _MEMBERS.fullmatch(self.connection_string)
        certain = found is not None and (found["user"] is not None or "@" not in self.connection_string)
        return found["hosts"] if found is not None and certain else ""
