"""The requests of a run share a write and a time, and nothing else."""

from __future__ import annotations

import socket
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import cast

import pytest
from attrs import evolve

from rocketmq_py.errors import (
    RemotingSendRequestException,
    RemotingTimeoutException,
    RemotingTooMuchRequestException,
    RocketMQError,
)
from rocketmq_py.protocol.codes import SerializeType
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.frame import Frame
from rocketmq_py.protocol.header_form import HeaderForm
from rocketmq_py.transport.runs import Outcome, RequestRun
from tests.socket_buffers import bound_buffers
from tests.unit.rocketmq_py.scripted import Peer, ScriptedServer
from tests.unit.rocketmq_py.transport.conftest import ChannelMaker, begun

CODE = 9001
DEAF = 9004
FORM = HeaderForm.of(CODE, {"i": ""}, "i")
LARGE = bytes(2_000_000)


class Told:
    """Runs that have ended."""

    def __init__(self) -> None:
        self.ended: SimpleQueue[RequestRun] = SimpleQueue()

    def run(self, bodies: Sequence[bytes]) -> RequestRun:
        return RequestRun(FORM, [f"text {number}" for number in range(len(bodies))], bodies, self)

    def __call__(self, run: RequestRun) -> None:
        self.ended.put(run)

    def outcomes(self) -> list[Outcome]:
        found = self.ended.get(timeout=10).outcomes
        assert self.ended.empty()
        return found


def echo(request: RemotingCommand, _: Peer) -> RemotingCommand:
    return request.answer(0, ext_fields=request.ext_fields, body=request.body)


def bodies_of(outcomes: Sequence[Outcome]) -> list[bytes]:
    return [one.body for one in outcomes if isinstance(one, Frame | RemotingCommand)]


def test_each_request_has_its_own_field_body_and_answer_in_whatever_order(
    server: ScriptedServer, connect: ChannelMaker
) -> None:
    held: list[RemotingCommand] = []

    def backwards(request: RemotingCommand, peer: Peer) -> None:
        held.append(request)
        if len(held) == 50:
            peer.send(*[echo(one, peer) for one in reversed(held)])

    server.on(CODE, backwards)
    channel, told = connect(), Told()
    channel.begin_run(told.run([b"%d" % number for number in range(50)]), 5_000)
    outcomes = told.outcomes()
    assert {type(one) for one in outcomes} == {Frame}
    assert bodies_of(outcomes) == [b"%d" % number for number in range(50)]
    texts = [request.ext_fields["i"] for request in server.of(CODE)]
    assert texts == [f"text {number}" for number in range(50)]
    assert channel.in_flight == 0


def test_an_answer_that_is_not_written_as_usual_is_read_the_long_way(
    server: ScriptedServer, connect: ChannelMaker
) -> None:
    def odd(request: RemotingCommand, peer: Peer) -> RemotingCommand:
        answer = request.answer(0, remark='a remark with "opaque":1, in it')
        if request.body == b"1":
            answer = evolve(answer, serialize_type=SerializeType.ROCKETMQ)
        return answer

    server.on(CODE, odd)
    channel, told = connect(), Told()
    channel.begin_run(told.run([b"0", b"1"]), 5_000)
    first, second = told.outcomes()
    assert isinstance(first, Frame)
    assert isinstance(second, RemotingCommand)
    assert RemotingCommand.decode(first).remark == second.remark


@pytest.mark.case("W15")
def test_a_request_of_the_server_with_an_opaque_of_the_run_ends_nothing(
    server: ScriptedServer, connect: ChannelMaker
) -> None:
    pushed: SimpleQueue[RemotingCommand] = SimpleQueue()

    def ask_back(request: RemotingCommand, peer: Peer) -> RemotingCommand:
        peer.send(RemotingCommand(40, opaque=request.opaque))
        return echo(request, peer)

    server.on(CODE, ask_back)
    channel, told = connect(on_request=lambda _, request: pushed.put(request)), Told()
    channel.begin_run(told.run([b"x", b"y"]), 5_000)
    assert bodies_of(told.outcomes()) == [b"x", b"y"]
    assert [pushed.get(timeout=30).code for _ in range(2)] == [40, 40]


def test_calls_and_runs_of_many_threads_share_a_connection(
    server: ScriptedServer, connect: ChannelMaker
) -> None:
    server.on(CODE, echo)
    channel = connect()

    def run(number: int) -> bool:
        told, bodies = Told(), [b"%d %d" % (number, at) for at in range(20)]
        channel.begin_run(told.run(bodies), 5_000)
        alone = begun(channel, RemotingCommand(CODE, body=b"alone"), 5_000)
        return bodies_of(told.outcomes()) == bodies and alone.result(30).body == b"alone"

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(run, range(60)))
    assert channel.in_flight == 0


def test_a_late_answer_finds_nobody_and_the_others_keep_theirs(
    server: ScriptedServer, connect: ChannelMaker
) -> None:
    late: SimpleQueue[tuple[RemotingCommand, Peer]] = SimpleQueue()

    def slow(request: RemotingCommand, peer: Peer) -> RemotingCommand | None:
        if request.body == b"1":
            late.put((request, peer))
            return None
        return echo(request, peer)

    server.on(CODE, slow)
    channel, told = connect(), Told()
    channel.begin_run(told.run([b"0", b"1", b"2"]), 50)
    outcomes = told.outcomes()
    assert isinstance(outcomes[1], RemotingTimeoutException)
    assert bodies_of(outcomes) == [b"0", b"2"]
    request, peer = late.get(timeout=30)
    peer.send(echo(request, peer))
    channel.begin_run(told.run([b"3"]), 5_000)
    assert bodies_of(told.outcomes()) == [b"3"]
    assert isinstance(outcomes[1], RemotingTimeoutException)


@pytest.mark.parametrize("ends", [True, False])
def test_what_was_not_written_has_not_left(
    server: ScriptedServer, connect: ChannelMaker, ends: bool
) -> None:
    hears = threading.Event()

    def wait(_request: RemotingCommand, peer: Peer) -> None:
        bound_buffers(peer.sock)
        hears.wait(30)

    server.on(DEAF, wait)
    channel, told, behind = connect(), Told(), Told()
    channel.invoke_oneway(RemotingCommand(DEAF), 1_000)
    server.wait_for(DEAF)
    bound_buffers(cast("socket.socket", channel._sock))
    while not channel._outbox.size:  # more bytes than the buffers of both systems take
        channel.begin_run(told.run([LARGE]), 60_000)
    channel.begin_run(behind.run([b"x", b"y"]), 60_000 if ends else 1)
    if ends:
        channel.close()
    kind = RemotingSendRequestException if ends else RemotingTimeoutException
    outcomes = behind.outcomes()
    assert [type(one) for one in outcomes] == [kind, kind]
    assert [getattr(one, "request_left", None) for one in outcomes] == [False, False]
    hears.set()


def test_a_run_that_is_one_too_many_is_refused_before_anything_is_written(
    server: ScriptedServer, connect: ChannelMaker
) -> None:
    server.on(CODE, echo)
    channel, told = connect(permits=3), Told()
    with pytest.raises(RemotingTooMuchRequestException):
        channel.begin_run(told.run([b"x"] * 4), 5_000)
    assert (channel.in_flight, server.of(CODE)) == (0, [])
    channel.begin_run(told.run([b"x"] * 3), 5_000)
    assert bodies_of(told.outcomes()) == [b"x"] * 3


def test_who_takes_the_outcomes_cannot_stop_the_reader(
    server: ScriptedServer, connect: ChannelMaker, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(_run: RequestRun) -> None:
        raise RocketMQError("no thanks")

    server.on(CODE, echo)
    channel, told = connect(), Told()
    channel.begin_run(RequestRun(FORM, ["a"], [b"x"], broken), 5_000)
    channel.begin_run(told.run([b"y"]), 5_000)
    assert bodies_of(told.outcomes()) == [b"y"]
    assert "taking the outcomes of a run failed" in caplog.text
