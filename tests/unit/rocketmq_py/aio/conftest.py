"""Brokers that answer sends when a test says so."""

from __future__ import annotations

import asyncio
import threading
from queue import SimpleQueue

import pytest

from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.command import RemotingCommand
from tests.unit.rocketmq_py.scripted import Peer, ScriptedCluster, stored

SEND = RequestCode.SEND_MESSAGE_V2
GUARD_S = 20.0


class Held:
    """The sends that a broker has got and not answered."""

    def __init__(self, cluster: ScriptedCluster) -> None:
        self.broker = cluster.brokers[0]
        self._waiting: SimpleQueue[tuple[RemotingCommand, Peer]] = SimpleQueue()
        self._answers = threading.Event()
        self._lock = threading.Lock()
        self.broker.on(SEND, self._take)

    def _take(self, request: RemotingCommand, peer: Peer) -> RemotingCommand | None:
        with self._lock:
            if self._answers.is_set():
                return stored(request)
            self._waiting.put((request, peer))
        return None

    async def arrived(self, count: int) -> None:
        """Wait until the broker has got so many sends; the loop goes on meanwhile."""
        await asyncio.to_thread(self.broker.wait_for, SEND, count)

    def answer(self, count: int = 1, code: int = 0) -> None:
        """Answer so many of them, in their order."""
        for _ in range(count):
            request, peer = self._waiting.get(timeout=GUARD_S)
            peer.send(stored(request, code))

    def answer_all(self) -> None:
        """Answer those that wait, and all that come from now on."""
        with self._lock:
            self._answers.set()
            self.answer(self._waiting.qsize())


@pytest.fixture
def held(cluster: ScriptedCluster) -> Held:
    """Sends to the broker of `cluster`, which holds them."""
    return Held(cluster)
