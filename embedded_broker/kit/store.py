"""Store of a test: closed, killed and opened again.

Answers: ``rocketmq_store``. Must not know: pytest, what the files mean. Read on:
``embedded_broker/lifecycle/recovery_report.py`` for what opening found.
"""

from pathlib import Path

from embedded_broker.api.broker import EmbeddedBroker
from embedded_broker.lifecycle.recovery_report import RecoveryReport


class Store:
    """The files of the broker of a test."""

    def __init__(self, broker: EmbeddedBroker, path: Path) -> None:
        self._broker = broker
        self.path = path
        """The directory, in RocketMQ's layout."""

    def __repr__(self) -> str:
        return f"<store in {self.path}>"

    def reopen(self, *, crash: bool = False, lose_unsynced: bool = False) -> RecoveryReport:
        """End the broker, and start it again on the same files with the same addresses.

        It closes cleanly. With ``crash`` it ends as by ``kill -9``, and with ``lose_unsynced`` as
        in a power loss: bytes that were not synced are gone. Clients connect again by themselves.
        Returns what opening found and repaired.
        """
        if lose_unsynced:
            self._broker.faults.disk.lose_unsynced()
        return self._broker.restart(crash=crash or lose_unsynced)
