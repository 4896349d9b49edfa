"""What administrators ask of brokers: themselves, their timers, and who pops.

`DefaultMQAdminExt` of the original, whose calls it has under Python names. A call names the
address it asks; none is looked up. Must not know producers, consumers or topics: what those ask
for themselves is in `client/queries.py`. Read on: `protocol/bodies/timers.py`.
"""

from typing import Unpack

from rocketmq_py.client.answers import check_answer
from rocketmq_py.client.caller import Caller
from rocketmq_py.config import ClientSettings, split_host_port
from rocketmq_py.errors import ConfigError
from rocketmq_py.protocol.bodies.pop import POP, PULL, MessageRequestMode
from rocketmq_py.protocol.bodies.timers import (
    DelayOffsets,
    RuntimeInfo,
    TimerCheckpoint,
    TimerCounts,
)
from rocketmq_py.protocol.bodies.topics import ClusterInfo
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.command import RemotingCommand


class DefaultMQAdminExt(Caller):
    """Asks brokers about themselves. Every call is safe from any thread.

    Arguments
    ---------
    timeout_millis
        Budget of one call in milliseconds, from 1.
    settings
        Those of `ClientConfig`, such as ``credentials``. ``namesrv_addr`` is not needed.

    Calls raise `RemotingException` when the address does not answer in time,
    `MQBrokerException` when it refuses, `ConfigError` when it is no ``host:port``, `BodyError`
    or `RecordError` when its answer cannot be read.

    >>> from embedded_broker import EmbeddedBroker
    >>> with EmbeddedBroker() as broker, DefaultMQAdminExt() as admin:
    ...     admin.get_timer_metrics(broker.addr).timing_count
    {}
    """

    def __init__(self, *, timeout_millis: int = 5_000, **settings: Unpack[ClientSettings]) -> None:
        if not isinstance(timeout_millis, int) or timeout_millis < 1:
            limit = "must be a whole number of milliseconds, at least 1"
            raise ConfigError("timeout_millis", timeout_millis, limit)
        super().__init__(**settings)
        self.timeout_millis = timeout_millis

    def fetch_broker_runtime_stats(self, addr: str) -> dict[str, str]:
        """Ask a broker for everything it says about itself, texts by name (28).

        A real 5.3.3 broker refuses with code 1 during the first second of its life.
        """
        return RuntimeInfo.decode(self._ask(addr, RequestCode.GET_BROKER_RUNTIME_INFO)).table

    def get_all_delay_offset(self, addr: str) -> DelayOffsets:
        """Ask a broker how far each delay level has come (45)."""
        return DelayOffsets.decode(self._ask(addr, RequestCode.GET_ALL_DELAY_OFFSET))

    def get_timer_check_point(self, addr: str) -> TimerCheckpoint:
        """Ask a 5.x broker for its timers' last check point (60)."""
        return TimerCheckpoint.decode(self._ask(addr, RequestCode.GET_TIMER_CHECK_POINT))

    def get_timer_metrics(self, addr: str) -> TimerCounts:
        """Ask a 5.x broker how many timers wait, by topic (61)."""
        return TimerCounts.decode(self._ask(addr, RequestCode.GET_TIMER_METRICS))

    def examine_broker_cluster_info(self, addr: str) -> ClusterInfo:
        """Ask a name server for every broker and its addresses (106); brokers answer code 3."""
        return ClusterInfo.decode(self._ask(addr, RequestCode.GET_BROKER_CLUSTER_INFO))

    def set_message_request_mode(
        self, addr: str, topic: str, group: str, mode: str, share_queues: int = 0
    ) -> None:
        """Set at one broker whether a group pulls a topic or pops it: ``PULL`` or ``POP`` (401).

        It counts for consumers with ``client_rebalance=False``; every broker of the topic needs
        it. ``share_queues``: how many members pop a queue besides its own one; 0: all do.
        """
        if mode not in {PULL, POP}:
            raise ConfigError("mode", mode, f"must be {PULL} or {POP}")
        body = MessageRequestMode(topic, group, mode, share_queues).encode(standard=True)
        self._ask(addr, RequestCode.SET_MESSAGE_REQUEST_MODE, body)

    def _ask(self, addr: str, code: RequestCode, body: bytes = b"") -> bytes:
        split_host_port(addr)
        command = RemotingCommand(code, body=body)
        answer = self._instance.remoting.invoke(addr, command, self.timeout_millis)
        check_answer(answer, addr)
        return answer.body
