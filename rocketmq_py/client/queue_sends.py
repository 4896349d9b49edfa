"""How bodies that are encoded already are sent to one queue, and what the broker said of each.

A run of messages shares what its headers have in common; nothing is made of an answer that says
stored before somebody asks for it. The headers themselves are in ``protocol/headers/send.py``. Must
not know routes or names of a namespace: its caller has an address and the topic on the wire. Read
on: ``queue_access.py`` for who sends, ``../transport/runs.py`` for how a run travels.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from functools import partial

from attrs import define, evolve, frozen

from rocketmq_py.client.answers import broker_error
from rocketmq_py.client.asking import Broker, Question
from rocketmq_py.client.broker_versions import BrokerVersions
from rocketmq_py.client.delay_policy import DelayPolicy, judge, judge_broker, mentions_delay
from rocketmq_py.clock import wall_ms
from rocketmq_py.errors import DelayValueError, RocketMQError
from rocketmq_py.protocol.codes import SEND_RESPONSE_STORED, RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.delay_doubts import is_before_timers, may_concern_delay, timer_asked
from rocketmq_py.protocol.frame import Buffer, Frame
from rocketmq_py.protocol.header_form import HeaderForm
from rocketmq_py.protocol.headers.send import (
    PROPERTIES_SHORT,
    SendMessageResponseHeader,
    send_fields,
)
from rocketmq_py.protocol.properties import Prop, decode_properties
from rocketmq_py.send_result import MessageQueue, SendStatus
from rocketmq_py.transport.runs import Outcome, RequestRun


@frozen
class RawSend:
    """What a broker says about a stored send; `offset_msg_id` is comma-joined for a batch."""

    status: SendStatus
    queue: MessageQueue
    queue_offset: int
    offset_msg_id: str
    recall_handle: str | None = None


@define
class SendRun:
    """Messages for one queue, which `QueueAccess.send_run` sends together, each for itself.

    `bodies` and `properties` are encoded, and have an element for each message. The other fields
    are the arguments of `QueueAccess.send` of the same names; `is_judged` says that the delays were
    judged as they were encoded, by what `RawMessages` tells of them: all that is left to judge is
    whether the broker knows timers.
    """

    queue: MessageQueue
    bodies: Sequence[Buffer]
    properties: Sequence[str]
    flag: int = 0
    sys_flag: int = 0
    batch: bool = False
    delay_policy: DelayPolicy = "strict"
    is_judged: bool = False

    def __len__(self) -> int:
        return len(self.bodies)

    def without(self, numbers: Container[int]) -> SendRun:
        """Return a run of the other messages."""
        kept = [number for number in range(len(self)) if number not in numbers]
        return evolve(
            self,
            bodies=[self.bodies[number] for number in kept],
            properties=[self.properties[number] for number in kept],
        )


@frozen
class SendOutcome:
    """How one message of a run ended, with the calls of a future that is done."""

    stored: RawSend | None
    error: Exception | None

    def exception(self) -> Exception | None:
        """Return the error, or None when the message is stored."""
        return self.error

    def result(self) -> RawSend:
        """Return the broker's answer, or raise the error."""
        if self.stored is None:
            raise self.error or RuntimeError("no outcome")
        return self.stored


class RunOutcome(Sequence[SendOutcome]):
    """How the messages of a `SendRun` ended, in their order; each is made when it is asked for.

    `unusual` are the numbers of those for which the broker did not just say ``SEND_OK``.
    """

    __slots__ = ("_address", "_outcomes", "_queue", "_topic", "unusual")

    def __init__(
        self, queue: MessageQueue, topic: str, address: str, outcomes: Sequence[Outcome]
    ) -> None:
        self._queue = queue
        self._topic = topic
        self._address = address
        self._outcomes = outcomes
        self.unusual = [
            number
            for number, one in enumerate(outcomes)
            if type(one) is not Frame and not _says_ok(one)
        ]

    @classmethod
    def failed(cls, queue: MessageQueue, count: int, error: RocketMQError) -> RunOutcome:
        """Make the outcome of so many messages that could not be sent."""
        return cls(queue, queue.topic, "", [error] * count)

    def __len__(self) -> int:
        return len(self._outcomes)

    def __getitem__(self, number: int) -> SendOutcome:  # type: ignore[override] # no slices
        one = self._outcomes[number]
        if isinstance(one, RocketMQError):
            return SendOutcome(None, one)
        try:
            answer = RemotingCommand.decode(one) if isinstance(one, Frame) else one
            return SendOutcome(stored(answer, self._queue, self._topic, self._address), None)
        except Exception as error:  # noqa: BLE001 - it belongs to whoever asks
            return SendOutcome(None, error)


def asks_for_delay(run: SendRun) -> bool:
    """Whether the delays of a run's messages must be judged; what is in a batch is not looked at.

    Not under a policy by which nothing follows.
    """
    if run.delay_policy == "as_java" or run.batch:
        return False
    return may_concern_delay("".join(run.properties))


def refused_delays(
    run: SendRun, topic: str, address: str, versions: BrokerVersions, timeout_ms: float
) -> dict[int, RocketMQError]:
    """Judge the delays of a run's messages; returns why some are not sent, by their numbers.

    May ask the broker for its version; raises what `BrokerVersions.of` does.
    """
    refused: dict[int, RocketMQError] = {}
    if not asks_for_delay(run):
        return refused
    if run.is_judged and not is_before_timers(versions.of(address, timeout_ms)):
        return refused
    policy = run.delay_policy
    for number, text in enumerate(run.properties):
        properties = decode_properties(text)
        if not mentions_delay(properties):
            continue
        shown = partial(_id_in, properties)
        try:
            if not run.is_judged:
                judge(policy, topic, properties, shown)
            timer = timer_asked(properties)
            if timer is not None:
                version = versions.of(address, timeout_ms)
                judge_broker(policy, topic, timer, shown, address, version)
        except DelayValueError as error:
            refused[number] = error
    return refused


def _id_in(properties: Mapping[str, str]) -> str:
    return properties.get(Prop.UNIQ_KEY, "without an id")


def with_refused(
    outcomes: Sequence[Outcome], refused: Mapping[int, RocketMQError]
) -> Sequence[Outcome]:
    """Put what was not sent back in its place among the outcomes of the others."""
    if not refused:
        return outcomes
    others = iter(outcomes)
    count = len(outcomes) + len(refused)
    return [refused[number] if number in refused else next(others) for number in range(count)]


def calls_of(
    run: SendRun, group: str, topic: str, ended: Callable[[RequestRun], None], *, unit_mode: bool
) -> RequestRun:
    """Make the calls of a run; ``ended`` has their outcomes."""
    fields = _fields_of(run, group, topic, "", unit_mode=unit_mode)
    form = HeaderForm.of(_code_of(run), fields, PROPERTIES_SHORT)
    return RequestRun(form, run.properties, run.bodies, ended)


def send_of(run: SendRun, group: str, topic: str, *, unit_mode: bool) -> Question[RawSend]:
    """Ask for a run of one message to be stored."""
    return Question(
        Broker(topic, run.queue.broker_name, only_this=True),
        _code_of(run),
        lambda answer, address: stored(answer, run.queue, topic, address),
        _fields_of(run, group, topic, run.properties[0], unit_mode=unit_mode),
        bytes(run.bodies[0]),
        accepts=SEND_RESPONSE_STORED,
    )


def stored(answer: RemotingCommand, queue: MessageQueue, topic: str, address: str) -> RawSend:
    """Read the answer to a send; raises `MQBrokerException` for a refusal."""
    status = SendStatus.from_code(answer.code)
    if status is None:
        raise broker_error(answer, address, topic=topic)
    told = SendMessageResponseHeader.from_ext(answer.ext_fields)
    where = queue
    if told.queue_id != queue.queue_id:
        where = MessageQueue(queue.topic, queue.broker_name, told.queue_id)
    return RawSend(status, where, told.queue_offset, told.msg_id, told.recall_handle)


def _says_ok(outcome: Outcome) -> bool:
    return isinstance(outcome, RemotingCommand) and outcome.code == ResponseCode.SUCCESS


def _code_of(run: SendRun) -> RequestCode:
    return RequestCode.SEND_BATCH_MESSAGE if run.batch else RequestCode.SEND_MESSAGE_V2


def _fields_of(
    run: SendRun, group: str, topic: str, properties: str, *, unit_mode: bool
) -> dict[str, str]:
    return send_fields(
        group,
        topic,
        queue_id=run.queue.queue_id,
        sys_flag=run.sys_flag,
        born_timestamp=wall_ms(),
        flag=run.flag,
        properties=properties,
        batch=run.batch,
        unit_mode=unit_mode,
        broker_name=run.queue.broker_name,
    )
