"""A server that closes says GO_AWAY: whoever asks does so once more, on another connection."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from queue import SimpleQueue
from typing import NamedTuple

import pytest

from rocketmq_py import Credentials, DefaultMQAdminExt, DefaultMQProducer, Message, QueueAccess
from rocketmq_py.client.instance import ClientInstance
from rocketmq_py.client.queue_sends import RunOutcome, SendRun
from rocketmq_py.errors import MQClientException
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.send_result import MessageQueue, SendStatus
from tests.unit.rocketmq_py.client.conftest import InstanceMaker
from tests.unit.rocketmq_py.scripted import Peer, ScriptedCluster, ScriptedServer, stored

CODE = 9001
QUEUE = MessageQueue("T", "broker-a", 1)
SAYS_OK = SendStatus.SEND_OK


class Keys:
    """A source that has other credentials once the first ones are refused."""

    def __init__(self) -> None:
        self.now = Credentials("old", "secret", "token")
        self.refused: list[str] = []

    def __call__(self) -> Credentials:
        return self.now

    def renew(self, refused: Credentials) -> bool:
        self.refused.append(refused.access_key)
        self.now = Credentials("new", "secret")
        return True


class Seen:
    """A hook that keeps the codes of answers; a send may stop at its second look."""

    def __init__(self, looks: int = 99) -> None:
        self.codes: SimpleQueue[int] = SimpleQueue()
        self.looks = looks

    def before_request(self, address: str, request: RemotingCommand) -> None:
        del address
        if request.code == CODE:
            self.looks -= 1
            if self.looks < 0:
                raise PermissionError("not twice")

    def after_response(
        self, address: str, request: RemotingCommand, response: RemotingCommand
    ) -> None:
        del address
        if request.code not in {RequestCode.GET_ROUTEINFO_BY_TOPIC, RequestCode.HEART_BEAT}:
            self.codes.put(response.code)


class Leaving:
    """A server that says GO_AWAY, then refuses old keys, then answers; each of so many requests.

    GO_AWAY is said on the first connection; ``again``: on every one.
    """

    def __init__(
        self,
        answer: Callable[[RemotingCommand], RemotingCommand],
        each: int = 1,
        *,
        again: bool = False,
    ) -> None:
        self.answer = answer
        self.away = self.refusals = each
        self.again = again
        self.first: Peer | None = None
        self.keys: list[str | None] = []
        self.tokens: set[str | None] = set()
        """Of the requests that were answered."""

    def __call__(self, request: RemotingCommand, peer: Peer) -> RemotingCommand:
        self.keys.append(request.ext_fields.get("AccessKey"))
        self.first = self.first or peer
        if self.away and (self.again or peer is self.first):
            self.away -= 1
            return request.answer(ResponseCode.GO_AWAY)
        if self.refusals and request.ext_fields.get("AccessKey") == "old":
            self.refusals -= 1
            return request.answer(ResponseCode.NO_PERMISSION)
        self.tokens.add(request.ext_fields.get("SecurityToken"))
        return self.answer(request)


def ask(instance: ClientInstance, address: str, *, waits: bool) -> RemotingCommand:
    if waits:
        return instance.remoting.invoke(address, RemotingCommand(CODE), 5_000)
    return instance.remoting.invoke_async(address, RemotingCommand(CODE), 5_000).result(30)


either = pytest.mark.parametrize("waits", [True, False], ids=["blocking", "async"])


@either
def test_hooks_see_the_answer_of_the_new_connection(
    cluster: ScriptedCluster, make_instance: InstanceMaker, waits: bool
) -> None:
    seen, broker = Seen(), cluster.brokers[0]
    instance = make_instance("", [seen])
    broker.on(CODE, Leaving(lambda request: request.answer(7)))
    assert ask(instance, broker.address, waits=waits).code == 7
    assert (seen.codes.get(timeout=30), seen.codes.empty()) == (7, True)


@either
def test_credentials_that_the_new_connection_refuses_are_renewed(
    cluster: ScriptedCluster, make_instance: InstanceMaker, waits: bool
) -> None:
    keys, broker, leaving = Keys(), cluster.brokers[0], Leaving(lambda r: r.answer(0))
    broker.on(CODE, leaving)
    assert ask(make_instance("", credentials=keys), broker.address, waits=waits).code == 0
    assert (leaving.keys, keys.refused) == (["old", "old", "new"], ["old"])
    assert leaving.tokens == {None}  # the new ones have none


@either
def test_a_server_that_says_go_away_again_is_not_asked_a_third_time(
    cluster: ScriptedCluster, make_instance: InstanceMaker, waits: bool
) -> None:
    broker, leaving = cluster.brokers[0], Leaving(lambda r: r.answer(0), 9, again=True)
    broker.on(CODE, leaving)
    answer = ask(make_instance("", credentials=Keys()), broker.address, waits=waits)
    assert (answer.code, len(leaving.keys)) == (ResponseCode.GO_AWAY, 2)


def test_a_hook_that_stops_a_call_that_is_sent_again_ends_it(
    cluster: ScriptedCluster, make_instance: InstanceMaker
) -> None:
    broker = cluster.brokers[0]
    instance = make_instance("", [Seen(looks=1)], credentials=Keys())
    broker.answer(CODE, ResponseCode.NO_PERMISSION)
    with pytest.raises(PermissionError):
        ask(make_instance("", [Seen(looks=1)], credentials=Keys()), broker.address, waits=True)
    with pytest.raises(MQClientException, match="not twice"):
        ask(instance, broker.address, waits=False)


class Way(NamedTuple):
    """A way to ask: the request that it makes, how its answer looks, and what comes of it."""

    code: RequestCode
    answer: Callable[[RemotingCommand], RemotingCommand]
    ask: Callable[[ScriptedServer, str, Keys], object]
    outcome: object
    times: int = 1


def producing(ask: Callable[[DefaultMQProducer], object]) -> Callable[..., object]:
    def run(_: ScriptedServer, namesrv_addr: str, keys: Keys) -> object:
        hook = Seen()
        with DefaultMQProducer(
            "leaving", namesrv_addr=namesrv_addr, credentials=keys, rpc_hooks=[hook]
        ) as producer:
            outcome = ask(producer)
            return outcome, hook.codes.get(timeout=30), hook.codes.empty()

    return run


def accessing(ask: Callable[[QueueAccess], object]) -> Callable[..., object]:
    def run(_: ScriptedServer, namesrv_addr: str, keys: Keys) -> object:
        with QueueAccess(namesrv_addr=namesrv_addr, credentials=keys) as access:
            return ask(access)

    return run


def administrating(broker: ScriptedServer, _: str, keys: Keys) -> object:
    with DefaultMQAdminExt(credentials=keys) as admin:
        return admin.fetch_broker_runtime_stats(broker.address)


def send_run(access: QueueAccess) -> object:
    told: SimpleQueue[RunOutcome] = SimpleQueue()
    access.send_run(SendRun(QUEUE, [b"x"] * 3, [""] * 3), told.put)
    return [one.result().status for one in told.get(timeout=30)]


PULL_FIELDS = {
    "nextBeginOffset": "1",
    "minOffset": "0",
    "maxOffset": "9",
    "suggestWhichBrokerId": "0",
}
MESSAGE, MESSAGES = Message("T", b"x"), [Message("T", b"1"), Message("T", b"2")]
WAYS = {
    "send": Way(
        RequestCode.SEND_MESSAGE_V2,
        stored,
        producing(lambda producer: producer.send(MESSAGE).send_status),
        (SAYS_OK, 0, True),
    ),
    "send_async": Way(
        RequestCode.SEND_MESSAGE_V2,
        stored,
        producing(lambda producer: producer.send_async(MESSAGE).result(30).send_status),
        (SAYS_OK, 0, True),
    ),
    "send_batch": Way(
        RequestCode.SEND_BATCH_MESSAGE,
        stored,
        producing(lambda producer: producer.send_batch(MESSAGES).send_status),
        (SAYS_OK, 0, True),
    ),
    "send run": Way(
        RequestCode.SEND_MESSAGE_V2, stored, accessing(send_run), [SAYS_OK] * 3, times=3
    ),
    "pull": Way(
        RequestCode.PULL_MESSAGE,
        lambda request: request.answer(0, ext_fields=PULL_FIELDS, body=b"records"),
        accessing(lambda access: access.pull(QUEUE, 0).result(30).records),
        b"records",
    ),
    "question of an administrator": Way(
        RequestCode.GET_BROKER_RUNTIME_INFO,
        lambda request: request.answer(0, body=b'{"table":{"a":"b"}}'),
        administrating,
        {"a": "b"},
    ),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=list(WAYS))
def test_whoever_asks_is_answered_by_the_server_that_comes_after(
    cluster: ScriptedCluster, way: Way
) -> None:
    broker, keys, leaving = cluster.brokers[0], Keys(), Leaving(way.answer, way.times)
    broker.on(way.code, leaving)
    assert way.ask(broker, cluster.namesrv_addr, keys) == way.outcome
    assert Counter(leaving.keys) == {"old": 2 * way.times, "new": way.times}
    assert set(keys.refused) == {"old"}


def test_a_run_without_credentials_goes_once_more_as_far_as_it_was_sent_away(
    cluster: ScriptedCluster,
) -> None:
    broker, leaving = cluster.brokers[0], Leaving(stored, each=2)
    broker.on(RequestCode.SEND_MESSAGE_V2, leaving)
    with QueueAccess(namesrv_addr=cluster.namesrv_addr) as access:
        assert send_run(access) == [SAYS_OK] * 3
    assert (len(leaving.keys), len(broker.peers)) == (5, 2)
