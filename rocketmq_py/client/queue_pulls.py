"""How records of one queue are pulled many times over, and what the broker said to each pull.

Pulls that leave together share what their headers have in common, and nothing is made of an answer
that says found before somebody asks for it: where brokers give 32 messages a pull, the pulls cost
more than the messages. Must not know routes or names of a namespace: its caller has an address and
the topic on the wire. Read on: ``queue_access.py`` for who pulls, ``queue_requests.py`` for one
pull, ``../transport/runs.py`` for how a run travels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rocketmq_py.client.asking import Question, Where
from rocketmq_py.client.queue_requests import PULL_RESULTS, RawPull, pull_answer, queue_request
from rocketmq_py.errors import RocketMQError
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.frame import Frame
from rocketmq_py.protocol.header_form import HeaderForm
from rocketmq_py.send_result import MessageQueue
from rocketmq_py.transport.runs import Outcome, RequestRun

_GAP = "queueOffset"


class PulledRun:
    """What became of pulls that left together, each of them answered, refused or out of time."""

    __slots__ = ("_address", "_offsets", "_outcomes", "_topic")

    def __init__(
        self, offsets: Sequence[int], topic: str, address: str, outcomes: Sequence[Outcome]
    ) -> None:
        self._offsets = offsets
        self._topic = topic
        self._address = address
        self._outcomes = outcomes

    def __len__(self) -> int:
        return len(self._offsets)

    def answer(self, number: int) -> RawPull:
        """Return the answer to one of the pulls; raises what `QueueAccess.pull` has in its future.

        That is `MQBrokerException` for a refusal, `RemotingException` without an answer.
        """
        outcome = self._outcomes[number]
        if isinstance(outcome, RocketMQError):
            raise outcome
        answer = RemotingCommand.decode(outcome) if isinstance(outcome, Frame) else outcome
        return pull_answer(answer, self._address, self._topic)

    def records(self, until: int) -> list[bytes] | None:
        """Return what each pull brought, when together it is all before the offset ``until``.

        None when a pull brought anything but all that lies before the next one: look at each.
        """
        found: list[bytes] = []
        for outcome, past in zip(self._outcomes, [*self._offsets[1:], until], strict=True):
            if isinstance(outcome, Frame):
                # Inside of a JSON text quotation marks have a backslash: this is a field.
                is_whole = b'"nextBeginOffset":"%d"' % past in outcome.header
            elif isinstance(outcome, RemotingCommand) and outcome.code == ResponseCode.SUCCESS:
                is_whole = outcome.ext_fields.get("nextBeginOffset") == str(past)
            else:
                return None
            if not is_whole:
                return None
            found.append(outcome.body)
        return found


def pull_of(
    where: Where, queue: MessageQueue, offset: int, fields: Mapping[str, object]
) -> Question[RawPull]:
    """Ask for records from an offset on."""
    command = queue_request(RequestCode.PULL_MESSAGE, queue, queue_offset=offset, **fields)
    return Question(
        where,
        RequestCode.PULL_MESSAGE,
        pull_answer,
        command.ext_fields,
        accepts=PULL_RESULTS,
        topic=queue.topic,
    )


def pull_calls(
    queue: MessageQueue,
    offsets: Sequence[int],
    ended: Callable[[RequestRun], None],
    **fields: object,
) -> RequestRun:
    """Make the calls of pulls that differ in where they begin; ``ended`` has their outcomes."""
    first = queue_request(RequestCode.PULL_MESSAGE, queue, queue_offset=offsets[0], **fields)
    form = HeaderForm.of(first.code, first.ext_fields, _GAP)
    return RequestRun(form, [str(offset) for offset in offsets], [b""] * len(offsets), ended)
