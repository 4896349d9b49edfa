"""Which version of RocketMQ the brokers have that a client is connected to.

Every answer bears the version of who answers; that of a heartbeat is read. A broker that has not
answered one yet is asked by one that names no group, so that the broker notes nobody. What is known
is forgotten with the connection: a broker may come back in another version. Must not know who asks,
or what a version means.
"""

import threading

from rocketmq_py.client.asking import Address, Asker, Question
from rocketmq_py.client.heartbeat import heartbeat_body
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.command import RemotingCommand


class BrokerVersions:
    """The versions (``MQVersion`` numbers) of one client's brokers. Safe from any thread."""

    def __init__(self, asker: Asker, client_id: str) -> None:
        self._asker = asker
        self._client_id = client_id
        self._known: dict[str, int] = {}

    def is_known(self, address: str) -> bool:
        """Whether an answer of a broker was read already, so that `of` asks nobody."""
        return address in self._known

    def note(self, answer: RemotingCommand, address: str) -> int:
        """Read the version in an answer: a reader for questions."""
        self._known[address] = version = answer.version
        return version

    def forget(self, address: str) -> None:
        """Know nothing any more of a broker whose connection has ended."""
        self._known.pop(address, None)

    def of(self, address: str, timeout_ms: float, stop: threading.Event | None = None) -> int:
        """Return the version of a broker, asking it when that is not known.

        Waits no longer than until ``stop`` is set. Raises what `Asker.answer` does.
        """
        known = self._known.get(address)
        if known is None:
            known = self._asker.answer(self._question(address), timeout_ms, stop)
        return known

    def _question(self, address: str) -> Question[int]:
        body = heartbeat_body(self._client_id, (), (), unit_mode=False)
        return Question(Address(address), RequestCode.HEART_BEAT, self.note, body=body)
