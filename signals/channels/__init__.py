"""Where signals come from: the port, and its implementations that need no driver."""

from signals.channels.inbox import Inbox
from signals.channels.port import SignalChannel

__all__ = ["Inbox", "SignalChannel"]
