"""A broker on a disk that fills up, is freed, and a kill: what was promised, and what is there.

Runs inside `small_disk.run_on_small_disk`. `fill_free_and_die` is the first life: plain, delayed
and transactional messages, commits and new topics, all noted when they were answered as done. It
goes on while nothing fits, frees the disk, waits until tables are saved, and is killed.
`look_again` opens the store and holds it against the notes.
"""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, Literal

from embedded_broker import EmbeddedBroker, VirtualClock
from rocketmq_py import (
    LocalTransactionState,
    Message,
    SendStatus,
    TransactionMQProducer,
    TransactionSendResult,
)
from rocketmq_py.clock import monotonic_ns
from rocketmq_py.errors import RocketMQError
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.json_text import dumps, loads
from tests.unit.embedded_broker.wire_peer import WirePeer, topic_fields

TOPIC: Final = "T"
GROUP: Final = "reading"
LEAST_ROOM: Final = 45 << 20
SAVED_S: Final = 5.0
"""Tables are saved this long after there is room again."""
_MESSAGES_MAX: Final = 100_000
_REFUSED_LEAST: Final = 400
_AFTERWARDS: Final = 200
_ROUNDS: Final = 20
_BODY_SIZES: Final = (100, 5_000, 60_000)
_DELAY_MAX_S: Final = 3_000
_Engine = Literal["wheel", "sliced"]


class _Commits:
    """The local part of every transaction succeeds, at once or when it is asked for."""

    def execute_local_transaction(self, message: Message, arg: object) -> LocalTransactionState:
        return LocalTransactionState.COMMIT_MESSAGE

    def check_local_transaction(self, message: Message) -> LocalTransactionState:
        return LocalTransactionState.COMMIT_MESSAGE


def _broker(store: Path, engine: _Engine) -> EmbeddedBroker:
    return EmbeddedBroker(
        store=store,
        engine=engine,
        clock=VirtualClock(),
        topics=[TOPIC],
        inproc=True,
        config={"flushConsumerOffsetInterval": 1000},
    )


def _producer(broker: EmbeddedBroker) -> TransactionMQProducer:
    return TransactionMQProducer(
        "sending",
        namesrv_addr=broker.namesrv_addr,
        transaction_listener=_Commits(),
        retry_times_when_send_failed=0,
    )


class _Load:
    """What is sent, committed and created, and what was answered as done."""

    def __init__(self, broker: EmbeddedBroker, producer: TransactionMQProducer) -> None:
        self._broker = broker
        self._producer = producer
        self._peer = WirePeer(broker.addr)
        self._rng = random.Random(7)
        self.promised: dict[int, int] = {}
        """When each message is due by the broker's clock; 0 for one that is due at once."""
        self.committed = 0
        self.topics: list[str] = []
        self.sends_refused = self.commits_refused = self.topics_refused = 0
        group = dumps({"groupName": GROUP})
        made = self._peer.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=group)
        assert made.code == 0, made.remark

    def step(self, number: int) -> None:
        """Send a message of the next kind; now and then commit, create a topic, let time pass."""
        self._send(number)
        if number % 10 == 0:
            fields = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": "0"}
            fields["commitOffset"] = str(number)
            if self._peer.ask(RequestCode.UPDATE_CONSUMER_OFFSET, fields).code == 0:
                self.committed = number
            else:
                self.commits_refused += 1
        if number % 50 == 0:
            name = f"New{number}"
            answer = self._peer.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, topic_fields(name))
            if answer.code == 0:
                self.topics.append(name)
            else:
                self.topics_refused += 1
        if number % 40 == 0:
            self._broker.clock.advance(1)

    def _send(self, number: int) -> None:
        body = b"%06d" % number + self._rng.randbytes(self._rng.choice(_BODY_SIZES))
        due_ms = 0
        try:
            if number % 3 == 2:
                result: Any = self._producer.send_message_in_transaction(Message(TOPIC, body))
                assert isinstance(result, TransactionSendResult)
                done = result.local_transaction_state is LocalTransactionState.COMMIT_MESSAGE
            elif number % 3 == 1:
                seconds = self._rng.randrange(1, _DELAY_MAX_S)
                due_ms = self._broker.clock.now_ms + seconds * 1000
                message = Message(TOPIC, body, delay=timedelta(seconds=seconds))
                done = self._producer.send(message).send_status is SendStatus.SEND_OK
            else:
                done = self._producer.send(Message(TOPIC, body)).send_status is SendStatus.SEND_OK
        except RocketMQError:
            self.sends_refused += 1
            return
        if done:
            self.promised[number] = due_ms

    def wait_saved(self) -> float:
        """Wait until nothing that was answered waits for a save; gives the seconds it took."""
        started_ns = monotonic_ns()
        parts = self._broker._parts()
        tables = parts.tables.offsets, parts.tables.topics

        def is_saved(_: object) -> bool:
            # What a save has taken is written by the time that the flush thread has nothing left.
            taken = not any(table.changed for table in tables)
            self._broker._node()._flusher.wait_other()
            unsaved = any(table.changed or table.unsaved for table in tables)
            return taken and not unsaved and parts.store.health.problem is None

        self._broker.wait_for(is_saved, timeout=2 * SAVED_S)
        return (monotonic_ns() - started_ns) / 1e9


def fill_free_and_die(
    store: Path, engine: _Engine, notes: Path, fill: Callable[..., None], free: Callable[[], None]
) -> None:
    """The first life; `notes` tell what was promised. Ends by a signal that nothing can catch."""
    broker = _broker(store, engine).start()
    producer = _producer(broker)
    producer.start()
    load = _Load(broker, producer)
    fill(keep=LEAST_ROOM)
    number = 0
    while load.sends_refused < _REFUSED_LEAST or not (load.commits_refused and load.topics_refused):
        number += 1
        assert number < _MESSAGES_MAX, "it never filled up"
        load.step(number)
    free()
    saved_s = load.wait_saved()
    for more in range(number + 1, number + 1 + _AFTERWARDS):
        load.step(more)
    load.wait_saved()
    notes.write_bytes(
        dumps(
            {
                "promised": [*load.promised.items()],
                "committed": load.committed,
                "topics": load.topics,
                "saved_s": saved_s,
                "refused": [load.sends_refused, load.commits_refused, load.topics_refused],
            }
        )
    )
    os.kill(os.getpid(), signal.SIGKILL)


def look_again(store: Path, engine: _Engine, notes: Path) -> dict[str, Any]:
    """The second life: let everything become due, and give what differs from the notes."""
    told: dict[str, Any] = loads(notes.read_bytes())
    promised: dict[int, int] = dict(told["promised"])
    with _broker(store, engine) as broker, _producer(broker) as producer:
        with broker._parts().door:
            committed = broker._parts().tables.offsets.query(GROUP, TOPIC, 0)
        lost_topics = sorted({*told["topics"]} - {*broker.topics.names()})
        # Ends of transactions that found no room are asked for again, of a producer that is known.
        producer.send(Message(TOPIC, b"000000"))
        missing = {*promised}
        for _ in range(_ROUNDS):
            broker.clock.advance(3600)
            broker.clock.settle(20)
            there = [
                (int(one.body[:6]), round(one.stored_at.timestamp() * 1000))
                for one in broker.messages.in_topic(TOPIC)
            ]
            nothing_was_missing, missing = not missing, {*promised} - {one for one, _ in there}
            if nothing_was_missing:
                break  # and one more round brought nothing twice
        return {
            "promised": len(promised),
            "delayed": sum(due > 0 for due in promised.values()),
            "missing": sorted(missing)[:10],
            "early": [one for one, at_ms in there if at_ms < promised.get(one, 0)][:10],
            "twice": len(there) - len({one for one, _ in there}),
            "pending": broker.timers.count(),
            "commits": (told["committed"], committed),
            "topics": len(told["topics"]),
            "lost_topics": lost_topics,
            "saved_s": told["saved_s"],
            "refused": told["refused"],
            "problems": list(broker.recovery.problems) if broker.recovery else [],
        }
