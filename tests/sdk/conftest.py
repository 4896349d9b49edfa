"""What the tests of this room have beside the fixtures of the kit, on any broker.

``pytest tests/sdk --rocketmq=process:5.3.3`` names the broker; without it each test has an embedded
one. So only public names are used here, and nothing looks inside a broker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from embedded_broker.pytest_plugin import Store
from rocketmq_py import (
    ConsumeConcurrentlyContext,
    ConsumeConcurrentlyStatus,
    DefaultMQProducer,
    DefaultMQPushConsumer,
    MessageExt,
    NoRouteError,
    QueueAccess,
    SendResult,
    create_reply_message,
)
from tests.sdk.desk import Loop
from tests.sdk.faces import Ground
from tests.sdk.way import Way
from tests.waiting import until

ROOM = Path(__file__).parent
GUARD_S = 60.0
"""A hang guard: a real broker on a busy machine takes seconds for what takes none elsewhere."""
REAL_GUARD_S = 180.0
"""The same for what a real broker does later by itself, such as a third attempt in POP."""
REAL_TEST_S = 240
"""The most that a test may take there: a restart, and what a vanished member keeps."""
MEMBERSHIP_S = 131.0
"""A real broker keeps a member that long whose heartbeat was answered after its connection ended.

It handles the two in different threads, and looks for members that are silent every ten seconds.
The lock of a queue ends sooner: a minute after its holder was heard last.
"""

Forward = Callable[[Callable[[], object]], None]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Give the tests of this room more time where the broker is no embedded one."""
    if config.getoption("rocketmq") in (None, "embedded"):
        return
    for item in items:
        if item.path.is_relative_to(ROOM) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(REAL_TEST_S))


@pytest.fixture
def loop() -> Iterator[Loop]:
    started = Loop()
    yield started
    started.close()


@pytest.fixture
def ground(
    rocketmq_broker: EmbeddedBroker,
    rocketmq_topic: str,
    rocketmq_group: str,
    tmp_path: Path,
    loop: Loop,
) -> Ground:
    return Ground(rocketmq_broker.namesrv_addr, rocketmq_topic, rocketmq_group, tmp_path, loop)


@pytest.fixture
def forward(rocketmq_broker: EmbeddedBroker) -> Forward:
    """Goes forward in the broker's time until something holds: ``forward(lambda: ...)``.

    What waits for no time of the broker, such as a rebalance, is waited for with `until`.
    """
    # A broker that is not embedded has no clock to ask for: the question would skip the test.
    clock = rocketmq_broker.clock if isinstance(rocketmq_broker, EmbeddedBroker) else None

    def go(holds: Callable[[], object]) -> None:
        if isinstance(clock, VirtualClock):
            clock.run_until(holds, at_most=GUARD_S)
        else:
            until(holds, REAL_GUARD_S)

    return go


@pytest.fixture
def leases_end(rocketmq_broker: EmbeddedBroker, rocketmq_store: Store) -> Callable[[], None]:
    """Frees the queues of members that vanished, as a minute does.

    The minute is one of the wall: an embedded broker starts again instead, and knows no locks then;
    on a real one the test waits.
    """

    def end() -> None:
        if isinstance(rocketmq_broker, EmbeddedBroker):
            rocketmq_store.reopen()

    return end


@pytest.fixture
def access(rocketmq_broker: EmbeddedBroker) -> Iterator[QueueAccess]:
    """Reads what the broker has stored."""
    with QueueAccess(namesrv_addr=rocketmq_broker.namesrv_addr) as started:
        yield started


@pytest.fixture
def way() -> Iterator[Way]:
    """The way to the broker for the clients that get it as ``address_mapper``."""
    with Way() as made:
        yield made


Replier = Callable[[Callable[[MessageExt], bytes | None]], None]


@pytest.fixture
def replier(
    rocketmq_broker: EmbeddedBroker, rocketmq_group: str, rocketmq_topic: str
) -> Iterator[Replier]:
    """Starts a consumer that replies what it is told; None: not at all."""
    addr = rocketmq_broker.namesrv_addr
    consumer = DefaultMQPushConsumer(rocketmq_group, namesrv_addr=addr)
    with DefaultMQProducer(f"{rocketmq_group}_replies", namesrv_addr=addr) as answers:

        def start(decide: Callable[[MessageExt], bytes | None]) -> None:
            def listen(
                messages: list[MessageExt], context: ConsumeConcurrentlyContext
            ) -> ConsumeConcurrentlyStatus:
                del context
                for message in messages:
                    body = decide(message)
                    if body is not None:
                        answers.send(create_reply_message(message, body))
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS

            consumer.subscribe(rocketmq_topic, "*")
            consumer.register_message_listener(listen)
            consumer.start()

        try:
            yield start
        finally:
            consumer.shutdown()


def body_at(access: QueueAccess, result: SendResult) -> bytes:
    """The body that lies where the result of a send says: a real broker shows it a moment later."""
    queue, offset = result.message_queue, result.queue_offset
    until(lambda: access.message_at(queue, offset) is not None, GUARD_S)
    found = access.message_at(queue, offset)
    assert found is not None
    assert found.msg_id == result.msg_id
    return found.body


def stored(access: QueueAccess, topic: str) -> int:
    """How many messages a topic has; none while nobody knows it."""
    try:
        return sum(one.max_offset for one in access.bounds(topic).values())
    except NoRouteError:
        return 0
