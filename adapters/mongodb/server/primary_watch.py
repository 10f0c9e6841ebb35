"""Counts how often another primary was elected, as the driver notices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pymongo.monitoring import TopologyListener

if TYPE_CHECKING:
    from pymongo.monitoring import TopologyClosedEvent, TopologyDescriptionChangedEvent, TopologyOpenedEvent


class PrimaryWatch(TopologyListener):
    """Follows one deployment through all clients that are given it; the driver's threads call it."""

    def __init__(self) -> None:
        self.elections = 0
        self._known: tuple[object, object] | None = None

    def opened(self, event: TopologyOpenedEvent) -> None:
        """Do nothing: the first description follows."""

    def description_changed(self, event: TopologyDescriptionChangedEvent) -> None:
        """Count a primary that is not the one known, by its address and its election."""
        for server in event.new_description.server_descriptions().values():
            if server.server_type_name == "RSPrimary":
                found = (server.address, server.election_id)
                self.elections += self._known not in {None, found}
                self._known = found

    def closed(self, event: TopologyClosedEvent) -> None:
        """Do nothing: another client may follow."""
