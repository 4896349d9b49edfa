"""Dispatch: from frames to answers, and what happens when a handler fails or waits."""

import logging
from collections.abc import Callable, Sequence
from functools import partial

import pytest

from embedded_broker.clocks.clock import VirtualClock
from embedded_broker.clocks.timeline import Budget
from embedded_broker.lifecycle.parts import BrokerParts
from embedded_broker.remoting.endpoint import HEADER_BYTES_MAX, REMARK_MAX, Endpoint
from embedded_broker.remoting.requests import GroupHandler, Handler, Request, RequestError
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
def parts(make_parts: Callable[..., BrokerParts]) -> BrokerParts:
    parts = make_parts()
    parts.endpoint.register(ASK, echo)
    return parts


def test_an_answer_carries_the_opaque_of_its_request_and_the_brokers_version(
    parts: BrokerParts, caller: Peer, cut: Cut
) -> None:
    parts.endpoint.receive(
        caller, cut(RemotingCommand(code=ASK, opaque=7), RemotingCommand(ASK, opaque=8))
    )

    assert [answer.opaque for answer in caller.answers] == [7, 8]
    assert caller.answers[0].is_response
    assert caller.answers[0].version == 479
    assert caller.answers[0].language == LanguageCode.JAVA


@pytest.mark.case("W6")
def test_fields_that_are_no_texts_are_handled_as_texts(parts: BrokerParts, caller: Peer) -> None:
    header = b'{"code":"105","opaque":1,"extFields":{"a":1,"b":true,"c":null},"other":[1]}'

    parts.endpoint.receive(caller, [Frame(0, header, b"")])

    assert caller.answers[0].code == 0
    assert caller.answers[0].ext_fields["a"] == "1"
    assert caller.answers[0].ext_fields["b"] == "true"


@pytest.mark.case("W7")
@pytest.mark.parametrize("language", [b'"ZIG"', b"3", b'"python"', b"null", b"99"])
def test_an_unknown_language_is_no_reason_to_refuse(
    parts: BrokerParts, caller: Peer, language: bytes
) -> None:
    header = b'{"code":105,"opaque":1,"language":%b}' % language

    parts.endpoint.receive(
        caller, [Frame(0, header, b""), Frame(0, b'{"code":105,"opaque":2}', b"")]
    )

    assert [answer.code for answer in caller.answers] == [0, 0]


@pytest.mark.case("W8")
def test_an_unknown_code_is_answered_with_its_number(
    parts: BrokerParts, caller: Peer, cut: Cut
) -> None:
    parts.endpoint.receive(caller, cut(RemotingCommand(code=9999, opaque=5)))

    answer = caller.answers[0]
    assert (answer.code, answer.opaque) == (3, 5)
    assert answer.remark == " request type 9999 not supported"


@pytest.mark.case("W9")
def test_a_oneway_request_gets_no_answer_not_even_for_an_unknown_code(
    parts: BrokerParts, caller: Peer, cut: Cut
) -> None:
    parts.endpoint.receive(
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
    parts: BrokerParts, caller: Peer, cut: Cut
) -> None:
    parts.endpoint.receive(caller, cut(RemotingCommand(code=ASK, opaque=1, flag=1)))
    parts.endpoint.receive(caller, cut(RemotingCommand(code=ASK, opaque=2)))

    assert [answer.opaque for answer in caller.answers] == [2]
    assert not caller.closed


@pytest.mark.case("W5")
@pytest.mark.parametrize(
    "header", [b"{broken", b"[]", b'{"code":"x"}', b'{"code":105,"opaque":4294967296}']
)
def test_a_header_that_cannot_be_decoded_closes_the_connection(
    parts: BrokerParts, caller: Peer, header: bytes
) -> None:
    parts.endpoint.receive(
        caller, [Frame(0, b'{"code":105,"opaque":1}', b""), Frame(0, header, b"")]
    )

    assert [answer.opaque for answer in caller.answers] == [1]
    assert caller.closed


@pytest.mark.parametrize("beyond", [0, 1])
def test_a_header_may_have_so_many_bytes_and_no_more(
    parts: BrokerParts, caller: Peer, beyond: int
) -> None:
    header = b'{"code":105,"opaque":1,"remark":"%b"}'
    size = HEADER_BYTES_MAX + beyond - len(header % b"")
    parts.endpoint.receive(caller, [Frame(0, header % (b"x" * size), b"")])

    assert [answer.opaque for answer in caller.answers] == [1][beyond:]
    assert caller.closed is bool(beyond)


def test_a_remark_is_cut_at_its_limit(parts: BrokerParts, caller: Peer, cut: Cut) -> None:
    def answer(request: Request) -> RemotingCommand:
        return request.command.answer(1, "x" * (REMARK_MAX + request.command.opaque))

    parts.endpoint.register(ASK, answer)
    parts.endpoint.receive(caller, cut(*(RemotingCommand(code=ASK, opaque=n) for n in (0, 1))))

    remarks = [answer.remark for answer in caller.answers]
    assert remarks == ["x" * REMARK_MAX, "x" * REMARK_MAX + "..."]


@pytest.mark.case("W13")
@pytest.mark.parametrize(("profile", "kind"), [("rocketmq-4.9", 1), ("rocketmq-5.x", 0)])
def test_a_binary_request_is_answered_in_the_form_of_the_profile(
    make_parts: Callable[..., BrokerParts], caller: Peer, cut: Cut, profile: str, kind: int
) -> None:
    parts = make_parts(profile)
    parts.endpoint.register(ASK, echo)

    parts.endpoint.receive(
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
    parts: BrokerParts,
    caller: Peer,
    cut: Cut,
    caplog: pytest.LogCaptureFixture,
    error: Exception,
    code: int,
    remark: str,
) -> None:
    def fail(request: Request) -> RemotingCommand:
        raise error

    parts.endpoint.register(ASK, fail)
    with caplog.at_level(logging.CRITICAL):
        parts.endpoint.receive(caller, cut(RemotingCommand(code=ASK, opaque=1)))

    assert caller.answers[0].code == code
    assert remark in (caller.answers[0].remark or "")
    if isinstance(error, RequestError):
        assert caller.answers[0].ext_fields == {"MSG_REGION": "r"}


def test_an_answer_that_cannot_be_encoded_becomes_an_error_answer(
    parts: BrokerParts, caller: Peer, cut: Cut
) -> None:
    huge: Handler = lambda request: request.command.answer(0, body=bytes(17_000_000))  # noqa: E731
    parts.endpoint.register(ASK, huge)

    parts.endpoint.receive(
        caller, cut(RemotingCommand(code=ASK, opaque=1), RemotingCommand(9999, opaque=2))
    )

    assert [answer.code for answer in caller.answers] == [1, 3]
    assert "cannot be sent" in (caller.answers[0].remark or "")


def test_a_parked_request_is_answered_later_and_the_journal_knows_both_times(
    parts: BrokerParts, caller: Peer, cut: Cut
) -> None:
    parked: list[Request] = []
    parts.endpoint.register(ASK, parked.append)

    parts.endpoint.receive(caller, cut(RemotingCommand(code=ASK, opaque=4)))
    assert caller.answers == []
    assert parts.journal.requests()[0].response_code is None

    with parts.door:
        parts.endpoint.answer(
            parked[0], parked[0].command.answer(ResponseCode.PULL_NOT_FOUND, "none")
        )

    assert [answer.opaque for answer in caller.answers] == [4]
    entry = parts.journal.requests()[0]
    assert (entry.response_code, entry.remark) == (19, "none")


def test_a_parked_answer_for_a_closed_connection_is_dropped(
    parts: BrokerParts, caller: Peer, cut: Cut
) -> None:
    parked: list[Request] = []
    parts.endpoint.register(ASK, parked.append)
    parts.endpoint.receive(caller, cut(RemotingCommand(code=ASK)))
    caller.closed = True

    with parts.door:
        parts.endpoint.answer(parked[0], parked[0].command.answer(0))
        parts.endpoint.push(caller, RemotingCommand(code=40))

    assert caller.answers == []


def test_pushes_have_a_numbering_of_their_own_and_come_before_the_answer_that_caused_them(
    parts: BrokerParts, caller: Peer, cut: Cut
) -> None:
    def notify(request: Request) -> RemotingCommand:
        for _ in range(2):
            parts.endpoint.push(request.connection, RemotingCommand(code=40, flag=2))
        return request.command.answer(ResponseCode.SUCCESS)

    parts.endpoint.register(ASK, notify)

    parts.endpoint.receive(caller, cut(RemotingCommand(code=ASK, opaque=1)))

    assert [command.code for command in caller.answers] == [40, 40, 0]
    assert [command.opaque for command in caller.answers] == [1, 2, 1]
    assert [entry.pushed for entry in parts.journal.requests()] == [False, True, True]


def test_a_code_that_the_profiles_version_does_not_have_is_unknown(
    make_parts: Callable[..., BrokerParts], caller: Peer, cut: Cut
) -> None:
    parts = make_parts("rocketmq-4.9")
    parts.endpoint.register(RequestCode.RECALL_MESSAGE, echo)

    parts.endpoint.receive(caller, cut(RemotingCommand(code=RequestCode.RECALL_MESSAGE)))

    assert caller.answers[0].code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED


def test_a_silent_endpoint_says_nothing_to_unknown_codes(
    parts: BrokerParts, caller: Peer, cut: Cut
) -> None:
    endpoint = Endpoint(
        name="namesrv",
        door=parts.door,
        clock=parts.clock,
        session=parts.session,
        journal=parts.journal,
        profile=parts.profile,
        handlers={ASK: echo},
        silent_unknown=True,
    )

    endpoint.receive(caller, cut(RemotingCommand(code=217), RemotingCommand(code=ASK, opaque=9)))

    assert [answer.opaque for answer in caller.answers] == [9]


def test_connections_are_known_until_they_end_and_listeners_hear_of_it(
    parts: BrokerParts, caller: Peer
) -> None:
    ended: list[object] = []
    parts.endpoint.on_disconnected.append(ended.append)

    parts.endpoint.connected(caller)
    assert parts.endpoint.connections == {caller}
    parts.endpoint.disconnected(caller)

    assert parts.endpoint.connections == set()
    assert ended == [caller]


def test_session_work_repeats_every_period_of_session_time(
    make_parts: Callable[..., BrokerParts],
) -> None:
    clock = VirtualClock()
    parts = make_parts(session_clock=clock)
    start_ms = clock.now_ms
    made: list[int] = []
    parts.session.every(500, lambda: made.append(clock.now_ms - start_ms))

    for _ in range(3):
        clock.advance(0.5)
        parts.session.fire(clock.now_ms, horizon_ms=clock.now_ms, budget=Budget())

    assert made == [500, 1000, 1500]


class TestSynchronousFlush:
    @pytest.fixture
    def parts(self, make_parts: Callable[..., BrokerParts]) -> BrokerParts:
        parts = make_parts(flushDiskType="SYNC_FLUSH", syncFlushTimeout=5000)

        def store_100_bytes(request: Request) -> RemotingCommand | None:
            end = 100 * request.command.opaque
            return parts.endpoint.answer_when_durable(request, request.command.answer(0), end)

        parts.endpoint.register(ASK, store_100_bytes)
        return parts

    def test_answers_wait_for_the_sync_that_covers_them_and_leave_together(
        self, parts: BrokerParts, caller: Peer, cut: Cut
    ) -> None:
        asked: list[int] = []
        parts.durability.request_flush = lambda: asked.append(1)
        commands = [RemotingCommand(ASK, opaque=number) for number in (1, 2, 3)]

        parts.endpoint.receive(caller, cut(*commands))
        assert (caller.answers, len(asked)) == ([], 3)

        parts.store.flushed_offset = 200  # type: ignore[misc]
        with parts.door:
            parts.durability.synced()

        assert [answer.opaque for answer in caller.answers] == [1, 2]

    def test_an_answer_whose_bytes_are_synced_already_leaves_at_once(
        self, parts: BrokerParts, caller: Peer, cut: Cut
    ) -> None:
        parts.store.flushed_offset = 100  # type: ignore[misc]

        parts.endpoint.receive(caller, cut(RemotingCommand(ASK, opaque=1)))

        assert [answer.code for answer in caller.answers] == [0]

    def test_a_sync_that_takes_too_long_is_answered_as_a_flush_timeout(
        self, parts: BrokerParts, caller: Peer, cut: Cut
    ) -> None:
        parts.endpoint.receive(caller, cut(RemotingCommand(ASK, opaque=1)))
        with parts.door:
            due_ms = parts.session.clock.now_ms + 5000
            parts.session.fire(due_ms, horizon_ms=due_ms, budget=Budget())
        parts.store.flushed_offset = 100  # type: ignore[misc]
        with parts.door:
            parts.durability.synced()

        assert [answer.code for answer in caller.answers] == [ResponseCode.FLUSH_DISK_TIMEOUT]


class Counters(GroupHandler):
    """Answers each request of a group with the size of the group, unless it is to fail."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.fails = False

    def take(self, requests: Sequence[Request]) -> Sequence[RemotingCommand]:
        self.sizes.append(len(requests))
        if self.fails:
            raise ZeroDivisionError("a bug")
        return [one.command.answer(0, str(len(requests))) for one in requests]


GROUPED = (RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2)


@pytest.fixture
def counters(parts: BrokerParts) -> Counters:
    counters = Counters()
    for code in GROUPED:
        parts.endpoint.register(code, counters)
    return counters


def test_requests_of_a_group_handler_that_follow_each_other_are_handled_in_one_call(
    parts: BrokerParts, caller: Peer, cut: Cut, counters: Counters
) -> None:
    codes = (10, 310, 310, ASK, 310, 9999, 10, 10)
    frames = cut(*(RemotingCommand(code, opaque=at) for at, code in enumerate(codes)))
    parts.endpoint.receive(caller, frames)
    assert counters.sizes == [3, 1, 2]
    assert [answer.opaque for answer in caller.answers] == list(range(len(codes)))
    assert [answer.remark for answer in caller.answers][:3] == ["3", "3", "3"]


def test_a_group_is_handled_before_a_header_that_ends_the_connection(
    parts: BrokerParts, caller: Peer, cut: Cut, counters: Counters
) -> None:
    parts.endpoint.receive(caller, [*cut(RemotingCommand(310)), Frame(0, b"{broken", b"")])
    assert (counters.sizes, caller.closed) == ([1], True)


def test_a_group_handler_that_fails_is_an_answer_to_each_request(
    parts: BrokerParts,
    caller: Peer,
    cut: Cut,
    counters: Counters,
    caplog: pytest.LogCaptureFixture,
) -> None:
    counters.fails = True
    with caplog.at_level(logging.CRITICAL):
        parts.endpoint.receive(caller, cut(RemotingCommand(310, 1), RemotingCommand(310, 2)))
    assert [answer.code for answer in caller.answers] == [1, 1]
    assert {answer.remark for answer in caller.answers} == {"ZeroDivisionError: a bug"}


class Refuser:
    """An interceptor that answers every second request instead of its handler."""

    def __init__(self) -> None:
        self.seen = 0

    def incoming(self, endpoint: Endpoint, request: Request) -> Callable[[], None] | None:
        self.seen += 1
        if self.seen % 2:
            return None
        return partial(endpoint.respond, request, request.command.answer(14))

    def outgoing(self, _request: Request, parts: list[bytes]) -> list[bytes]:
        return parts


def test_what_an_interceptor_answers_keeps_its_place_among_the_answers(
    parts: BrokerParts, caller: Peer, cut: Cut, counters: Counters
) -> None:
    parts.endpoint.interceptors.append(Refuser())
    parts.endpoint.receive(caller, cut(*(RemotingCommand(310, opaque=at) for at in range(4))))
    assert [(one.opaque, one.code) for one in caller.answers] == [(0, 0), (1, 14), (2, 0), (3, 14)]
    assert counters.sizes == [1, 1]
