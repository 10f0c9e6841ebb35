"""Where notifications go besides the sink: the log and a webhook.

Also makes a job's `Notices` from its settings.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from adapters.http.webhook import Webhook
from engine.config.settings import NotificationChannel
from engine.events.record.notification import notification_records
from engine.job.reports.notices import Notices
from engine.job.reports.outbox import Outlet
from engine.printable import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.clock import Clock
    from engine.config.settings import NotificationSettings, Settings
    from engine.events.record.notification import Notification

_log = logging.getLogger("adapters")


class Notifier:
    """Gives notifications to the log and the webhook, as the settings say."""

    def __init__(self, settings: NotificationSettings) -> None:
        self._logs = NotificationChannel.LOG in settings.channels
        posts = NotificationChannel.WEBHOOK in settings.channels
        self._webhook = Webhook(settings.webhook) if posts else None

    def tell(self, notifications: Sequence[Notification]) -> None:
        """Give them to each channel, in order. Waits for none."""
        for notification in notifications if self._logs else ():
            _log.info("notification %s", printable(notification.json))
        if self._webhook is not None:
            self._webhook.post(notification.json for notification in notifications)

    def close(self) -> None:
        """Release the webhook."""
        if self._webhook is not None:
            self._webhook.close()


def make_notices(settings: Settings, notifier: Notifier, clock: Clock) -> Notices:
    """What notes the notifications of a job; nothing if no channel is on."""
    asked, events = settings.notifications, settings.events
    if not asked.channels:
        return Notices()
    writes = NotificationChannel.SINK in asked.channels
    record = partial(notification_records, events, asked.topic) if writes else None
    return Notices(Outlet(events.topic_prefix, clock.now, clock.new_id, record, notifier.tell))
