"""Dispatch: from frames to answers, and what happens when a handler fails or waits."""

import logging
from collections.abc import Callable

import pytest

from embedded_broker.clocks.clock import VirtualClock
from embedded_broker.clocks.timeline import Budget
from embedded_broker.core.broker_core import BrokerCore
from embedded_broker.remoting.endpoint import Endpoint, Handler, Request, RequestError
from rocketmq_py.errors import HeaderError
from rocketmq_py.protocol.codes import LanguageCode, RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.frame import Frame
from tests.unit.embedded_broker.peers import Peer

Cut = Callable[..., list[Frame]]
ASK = RequestCode.GET_ROUTEINFO_BY_TOPIC


def echo(request: Request) -> RemotingCommand:
    fields = dict(request.command.ext_fields)
    return request.command.answer(ResponseCode.SUCCESS, ext_fields=fields)


@pytest.fixture
def core(make_core: Callable[..., BrokerCore]) -> BrokerCore:
    core = make_core()
    core.endpoint.register(ASK, echo)
    return core


def test_an_answer_carries_the_opaque_of_its_request_and_the_brokers_version(
    core: BrokerCore, caller: Peer, cut: Cut
) -> None:
    core.endpoint.receive(
        caller, cut(RemotingCommand(code=ASK, opaque=7), RemotingCommand(ASK, opaque=8))
    )

    assert [answer.opaque for answer in caller.answers] == [7, 8]
    assert caller.answers[0].is_response
    assert caller.answers[0].version == 479
    assert caller.answers[0].language == LanguageCode.JAVA


@pytest.mark.case("W6")
def test_fields_that_are_no_texts_are_handled_as_texts(core: BrokerCore, caller: Peer) -> None:
    header = b'{"code":"105","opaque":1,"extFields":{"a":1,"b":true,"c":null},"other":[1]}'

    core.endpoint.receive(caller, [Frame(0, header, b"")])

    assert caller.answers[0].code == 0
    assert caller.answers[0].ext_fields["a"] == "1"
    assert caller.answers[0].ext_fields["b"] == "true"


@pytest.mark.case("W7")
@pytest.mark.parametrize("language", [b'"ZIG"', b"3", b'"python"', b"null", b"99"])
def test_an_unknown_language_is_no_reason_to_refuse(
    core: BrokerCore, caller: Peer, language: bytes
) -> None:
    header = b'{"code":105,"opaque":1,"language":%b}' % language

    core.endpoint.receive(
        caller, [Frame(0, header, b""), Frame(0, b'{"code":105,"opaque":2}', b"")]
    )

    assert [answer.code for answer in caller.answers] == [0, 0]


@pytest.mark.case("W8")
def test_an_unknown_code_is_answered_with_its_number(
    core: BrokerCore, caller: Peer, cut: Cut
) -> None:
    core.endpoint.receive(caller, cut(RemotingCommand(code=9999, opaque=5)))

    answer = caller.answers[0]
    assert (answer.code, answer.opaque) == (3, 5)
    assert answer.remark == " request type 9999 not supported"


@pytest.mark.case("W9")
def test_a_oneway_request_gets_no_answer_not_even_for_an_unknown_code(
    core: BrokerCore, caller: Peer, cut: Cut
) -> None:
    core.endpoint.receive(
        caller,
        cut(
            RemotingCommand(code=9999, opaque=1, flag=2),
            RemotingCommand(code=ASK, opaque=2, flag=2),
            RemotingCommand(code=ASK, opaque=3),
        ),
    )

    assert [answer.opaque for answer in caller.answers] == [3]


@pytest.mark.case("W10")
def test_a_request_marked_as_a_response_is_never_answered_and_the_connection_stays(
    core: BrokerCore, caller: Peer, cut: Cut
) -> None:
    core.endpoint.receive(caller, cut(RemotingCommand(code=ASK, opaque=1, flag=1)))
    core.endpoint.receive(caller, cut(RemotingCommand(code=ASK, opaque=2)))

    assert [answer.opaque for answer in caller.answers] == [2]
    assert not caller.closed


@pytest.mark.case("W5")
@pytest.mark.parametrize(
    "header", [b"{broken", b"[]", b'{"code":"x"}', b'{"code":105,"opaque":4294967296}']
)
def test_a_header_that_cannot_be_decoded_closes_the_connection(
    core: BrokerCore, caller: Peer, header: bytes
) -> None:
    core.endpoint.receive(
        caller, [Frame(0, b'{"code":105,"opaque":1}', b""), Frame(0, header, b"")]
    )

    assert [answer.opaque for answer in caller.answers] == [1]
    assert caller.closed


@pytest.mark.case("W13")
@pytest.mark.parametrize(("profile", "kind"), [("rocketmq-4.9", 1), ("rocketmq-5.x", 0)])
def test_a_binary_request_is_answered_in_the_form_of_the_profile(
    make_core: Callable[..., BrokerCore], caller: Peer, cut: Cut, profile: str, kind: int
) -> None:
    core = make_core(profile)
    core.endpoint.register(ASK, echo)

    core.endpoint.receive(
        caller, cut(RemotingCommand(ASK, ext_fields={"topic": "T"}, serialize_type=1))
    )

    assert caller.frames[0].serialize_type == kind
    assert caller.answers[0].ext_fields == {"topic": "T"}


@pytest.mark.parametrize(
    ("error", "code", "remark"),
    [
        (RequestError(17, "no such topic", {"MSG_REGION": "r"}), 17, "no such topic"),
        (HeaderError("topic", None, "is required"), 1, "topic"),
        (ZeroDivisionError("a bug"), 1, "ZeroDivisionError: a bug"),
    ],
)
def test_a_handler_that_raises_is_an_answer_and_not_the_end(
    core: BrokerCore,
    caller: Peer,
    cut: Cut,
    caplog: pytest.LogCaptureFixture,
    error: Exception,
    code: int,
    remark: str,
) -> None:
    def fail(request: Request) -> RemotingCommand:
        raise error

    core.endpoint.register(ASK, fail)
    with caplog.at_level(logging.CRITICAL):
        core.endpoint.receive(caller, cut(RemotingCommand(code=ASK, opaque=1)))

    assert caller.answers[0].code == code
    assert remark in (caller.answers[0].remark or "")
    if isinstance(error, RequestError):
        assert caller.answers[0].ext_fields == {"MSG_REGION": "r"}


def test_an_answer_that_cannot_be_encoded_becomes_an_error_answer(
    core: BrokerCore, caller: Peer, cut: Cut
) -> None:
    huge: Handler = lambda request: request.command.answer(0, body=bytes(17_000_000))  # noqa: E731
    core.endpoint.register(ASK, huge)

    core.endpoint.receive(
        caller, cut(RemotingCommand(code=ASK, opaque=1), RemotingCommand(9999, opaque=2))
    )

    assert [answer.code for answer in caller.answers] == [1, 3]
    assert "cannot be sent" in (caller.answers[0].remark or "")


def test_a_parked_request_is_answered_later_and_the_journal_knows_both_times(
    core: BrokerCore, caller: Peer, cut: Cut
) -> None:
    parked: list[Request] = []
    core.endpoint.register(ASK, parked.append)

    core.endpoint.receive(caller, cut(RemotingCommand(code=ASK, opaque=4)))
    assert caller.answers == []
    assert core.journal.requests()[0].response_code is None

    with core.door:
        core.endpoint.answer(
            parked[0], parked[0].command.answer(ResponseCode.PULL_NOT_FOUND, "none")
        )

    assert [answer.opaque for answer in caller.answers] == [4]
    entry = core.journal.requests()[0]
    assert (entry.response_code, entry.remark) == (19, "none")


def test_a_parked_answer_for_a_closed_connection_is_dropped(
    core: BrokerCore, caller: Peer, cut: Cut
) -> None:
    parked: list[Request] = []
    core.endpoint.register(ASK, parked.append)
    core.endpoint.receive(caller, cut(RemotingCommand(code=ASK)))
    caller.closed = True

    with core.door:
        core.endpoint.answer(parked[0], parked[0].command.answer(0))
        core.endpoint.push(caller, RemotingCommand(code=40))

    assert caller.answers == []


def test_pushes_have_a_numbering_of_their_own_and_come_before_the_answer_that_caused_them(
    core: BrokerCore, caller: Peer, cut: Cut
) -> None:
    def notify(request: Request) -> RemotingCommand:
        for _ in range(2):
            core.endpoint.push(request.connection, RemotingCommand(code=40, flag=2))
        return request.command.answer(ResponseCode.SUCCESS)

    core.endpoint.register(ASK, notify)

    core.endpoint.receive(caller, cut(RemotingCommand(code=ASK, opaque=1)))

    assert [command.code for command in caller.answers] == [40, 40, 0]
    assert [command.opaque for command in caller.answers] == [1, 2, 1]
    assert [entry.pushed for entry in core.journal.requests()] == [False, True, True]


def test_a_code_that_the_profiles_version_does_not_have_is_unknown(
    make_core: Callable[..., BrokerCore], caller: Peer, cut: Cut
) -> None:
    core = make_core("rocketmq-4.9")
    core.endpoint.register(RequestCode.RECALL_MESSAGE, echo)

    core.endpoint.receive(caller, cut(RemotingCommand(code=RequestCode.RECALL_MESSAGE)))

    assert caller.answers[0].code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED


def test_a_silent_endpoint_says_nothing_to_unknown_codes(
    core: BrokerCore, caller: Peer, cut: Cut
) -> None:
    endpoint = Endpoint(
        "namesrv",
        door=core.door,
        clock=core.clock,
        session=core.session,
        journal=core.journal,
        profile=core.profile,
        handlers={ASK: echo},
        silent_unknown=True,
    )

    endpoint.receive(caller, cut(RemotingCommand(code=217), RemotingCommand(code=ASK, opaque=9)))

    assert [answer.opaque for answer in caller.answers] == [9]


def test_connections_are_known_until_they_end_and_listeners_hear_of_it(
    core: BrokerCore, caller: Peer
) -> None:
    ended: list[object] = []
    core.endpoint.on_disconnected.append(ended.append)

    core.endpoint.connected(caller)
    assert core.connections == {caller}
    core.endpoint.disconnected(caller)

    assert core.connections == set()
    assert ended == [caller]


@pytest.mark.parametrize(
    ("address", "told"),
    [("10.0.0.5:10911", "10.0.0.5:10911"), ("0.0.0.0:10911", "127.0.0.1:10911")],
)
def test_a_wildcard_address_is_told_as_the_one_the_peer_came_through(
    core: BrokerCore, caller: Peer, address: str, told: str
) -> None:
    core.address = address

    assert core.address_for(caller) == told


def test_session_work_repeats_every_period_of_session_time(
    make_core: Callable[..., BrokerCore],
) -> None:
    clock = VirtualClock()
    core = make_core(session_clock=clock)
    start_ms = clock.now_ms
    made: list[int] = []
    core.session.every(500, lambda: made.append(clock.now_ms - start_ms))

    for _ in range(3):
        clock.advance(0.5)
        core.session.fire(clock.now_ms, horizon_ms=clock.now_ms, budget=Budget())

    assert made == [500, 1000, 1500]


class TestSynchronousFlush:
    @pytest.fixture
    def core(self, make_core: Callable[..., BrokerCore]) -> BrokerCore:
        core = make_core(flushDiskType="SYNC_FLUSH", syncFlushTimeout=5000)

        def store_100_bytes(request: Request) -> RemotingCommand | None:
            end = 100 * request.command.opaque
            return core.endpoint.answer_when_durable(request, request.command.answer(0), end)

        core.endpoint.register(ASK, store_100_bytes)
        return core

    def test_answers_wait_for_the_sync_that_covers_them_and_leave_together(
        self, core: BrokerCore, caller: Peer, cut: Cut
    ) -> None:
        asked: list[int] = []
        core.durability.request_flush = lambda: asked.append(1)
        commands = [RemotingCommand(ASK, opaque=number) for number in (1, 2, 3)]

        core.endpoint.receive(caller, cut(*commands))
        assert (caller.answers, len(asked)) == ([], 3)

        core.store.flushed_offset = 200  # type: ignore[misc]
        with core.door:
            core.durability.synced()

        assert [answer.opaque for answer in caller.answers] == [1, 2]

    def test_an_answer_whose_bytes_are_synced_already_leaves_at_once(
        self, core: BrokerCore, caller: Peer, cut: Cut
    ) -> None:
        core.store.flushed_offset = 100  # type: ignore[misc]

        core.endpoint.receive(caller, cut(RemotingCommand(ASK, opaque=1)))

        assert [answer.code for answer in caller.answers] == [0]

    def test_a_sync_that_takes_too_long_is_answered_as_a_flush_timeout(
        self, core: BrokerCore, caller: Peer, cut: Cut
    ) -> None:
        core.endpoint.receive(caller, cut(RemotingCommand(ASK, opaque=1)))
        with core.door:
            due_ms = core.session_clock.now_ms + 5000
            core.session.fire(due_ms, horizon_ms=due_ms, budget=Budget())
        core.store.flushed_offset = 100  # type: ignore[misc]
        with core.door:
            core.durability.synced()

        assert [answer.code for answer in caller.answers] == [ResponseCode.FLUSH_DISK_TIMEOUT]
