"""Wiring of a slave: what it refuses, what it leaves to its master, and who follows.

Answers: how the parts of ``embedded_broker/ha`` meet the parts of a broker. A slave takes nothing
from clients, asks producers of no transaction, revives nothing and delivers nothing that is due
unless it acts as master (``acting.py``): its wheel is filled up to where the master's is. After
``HookUtils.checkBeforePutMessage``, ``rejectRequest`` of the processors and
``BrokerController.changeSpecialServiceStatus``. Read on: ``node.py``, which starts and ends it.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from embedded_broker.core.refusals import Reason, Refused
from embedded_broker.ha.client import HAClient
from embedded_broker.ha.synchronize import SlaveSynchronize
from embedded_broker.ha.tables import FollowedTables
from embedded_broker.lifecycle.acting import ActingMaster
from embedded_broker.lifecycle.parts import BrokerParts
from embedded_broker.remoting.requests import Answer, Handler, Request
from embedded_broker.store.following import Follower
from embedded_broker.store.put_values import InnerMessage, PutRefusal, PutStatus
from embedded_broker.timer.choice import wheel_of
from rocketmq_py.protocol.bodies.topics import DataVersion, RegisterBrokerBody, TopicConfigTable
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.headers.namesrv import RegisterBrokerRequestHeader

REJECTED: Final = "[REJECTREQUEST]system busy, start flow control for a while"
NO_HA_ADDRESS: Final = "127.0.0.1:0"
"""Announced by a slave that nobody can follow: the field is required."""
SENDS: Final = (
    RequestCode.SEND_MESSAGE,
    RequestCode.SEND_MESSAGE_V2,
    RequestCode.SEND_BATCH_MESSAGE,
    RequestCode.CONSUMER_SEND_MSG_BACK,
)
PULLS: Final = (RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE)


class SlaveHook:
    """Refuses every put: only the master's bytes come into the log."""

    name = "slave"

    def before_put(self, msg: InnerMessage, now_ms: int) -> PutRefusal:  # noqa: ARG002 - any
        """Refuse it."""
        return PutRefusal(
            PutStatus.SERVICE_NOT_AVAILABLE, "this broker is a slave: messages go to its master"
        )


class SlaveNode:
    """The slave's half of a broker. Made under the door; ``start`` and ``close`` outside."""

    def __init__(
        self, parts: BrokerParts, ha_address: str, note_tables: Callable[[], None]
    ) -> None:
        self._parts = parts
        timers = wheel_of(parts.timers)
        timers.set_should_running_dequeue(False)
        parts.levels.hold()
        # Transactions and POP act where the master is.
        parts.sources[:] = [parts.timers, parts.levels]
        parts.store.hooks.listed.insert(0, SlaveHook())
        self._reject()
        self._follower = Follower(parts.store)
        self._client = HAClient(parts.door, self._follower, parts.config)
        self.acting: ActingMaster | None = None
        """What it does while its master is away."""
        may_act = parts.config.flag("enableSlaveActingMaster")
        if may_act and parts.config.flag("enableRemoteEscape"):
            self.acting = ActingMaster(parts, note_tables)
            parts.durability.replication.make_way = self.acting.make_way
        parts.durability.replication.master_address = lambda: self._client.address
        self._synchronize = SlaveSynchronize(
            door=parts.door,
            config=parts.config,
            version=parts.profile.version,
            header=RegisterBrokerRequestHeader(
                broker_name=parts.broker_name,
                broker_addr=parts.address,
                cluster_name=parts.cluster_name,
                ha_server_addr=ha_address or NO_HA_ADDRESS,
                broker_id=parts.config.int("brokerId"),
                enable_acting_master=may_act,
            ),
            topics=partial(announced, parts),
            tables=FollowedTables(
                topics=parts.tables.topics,
                groups=parts.tables.groups,
                offsets=parts.tables.offsets,
                modes=parts.tables.request_modes,
                levels=parts.levels,
                timers=timers,
            ),
            client=self._client,
            note=note_tables,
            acting=self.acting,
        )

    def _reject(self) -> None:
        """Refuse sends, and pulls unless slaveReadEnable is set."""
        endpoint, config = self._parts.endpoint, self._parts.config
        for code in SENDS:
            if code in endpoint.handlers:
                endpoint.handlers[code] = _rejected
        for code in PULLS:
            pull = endpoint.handlers.get(code)
            if callable(pull):
                endpoint.handlers[code] = _only_if(lambda: config.flag("slaveReadEnable"), pull)

    def start(self) -> None:
        """Begin to follow."""
        self._client.start()
        self._synchronize.start()

    def close(self, *, clean: bool) -> None:
        """Follow no longer; the begin of a record whose rest has not come is let go if clean."""
        self._synchronize.close()
        self._client.close()
        if self.acting is not None:
            self.acting.escape.close(clean=clean)
        if clean:
            with self._parts.door:
                self._follower.cut_unfinished()


def announced(parts: BrokerParts) -> RegisterBrokerBody:
    """Give the topics with which a broker registers."""
    topics = parts.tables.topics
    return RegisterBrokerBody(
        TopicConfigTable(
            DataVersion.from_document(topics.data_version()),
            {one.topic_name: one for one in topics},
        )
    )


def _rejected(_request: Request) -> RemotingCommand:
    raise Refused(Reason.BUSY, REJECTED)


def _only_if(may: Callable[[], bool], handler: Handler) -> Handler:
    def handle(request: Request) -> Answer | None:
        return handler(request) if may() else _rejected(request)

    return handle
