"""Queue locks of an orderly consumer: brokers lend each queue to one member of a group.

Requests 41 and 42, to masters only. A broker's lease of a queue is 60 s long; its holder trusts it
for `LOCK_TRUST_S` and asks again every `LOCK_RENEW_S`, so a member that hears nothing stops before
another one may begin. This module must not know when a lock is wanted. Facts: ``RebalanceImpl``,
``RebalanceLockManager``.
"""

import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

from rocketmq_py.client.activity import Book
from rocketmq_py.client.asking import Asker, Broker, Question
from rocketmq_py.client.instance import ClientInstance
from rocketmq_py.clock import monotonic
from rocketmq_py.errors import RocketMQError
from rocketmq_py.logs import get_logger
from rocketmq_py.protocol.bodies.document import MessageQueueKey
from rocketmq_py.protocol.bodies.groups import LockBatchRequest, LockBatchResponse
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.send_result import MessageQueue

logger = get_logger(__name__)

LOCK_TRUST_S: Final = 30.0
"""How long a lock counts after the broker was asked for it and said yes."""
LOCK_RENEW_S: Final = 20.0
"""How often the holder asks again."""
LOCK_TIMEOUT_MS: Final = 5_000
"""How long a broker's answer is waited for: a renewal that fails leaves time for no other."""

_NEVER: Final = float("-inf")
_ALWAYS: Final = float("inf")
_ByBroker = Mapping[str, Collection[MessageQueue]]


class _Claim:
    """A queue that this member has, or has asked a broker for, and has not given back since.

    `is_lent`: by a lock, which its broker must be asked for; a popped queue has none.
    """

    __slots__ = ("is_lent", "trusted_until")

    def __init__(self, *, is_lent: bool = True) -> None:
        self.is_lent = is_lent
        self.trusted_until = _NEVER if is_lent else _ALWAYS


class QueueLocks:
    """Locks of one member of a group. Every method may be called by any thread; none raises.

    `lock` and `renew` wait for brokers, up to `LOCK_TIMEOUT_MS`. What a broker does not answer, or
    refuses, is reported through the client's ``unreachable``. No broker is asked for a queue that
    ``needs_none``, because it is popped: what lies there is given to one member at a time anyway.
    It is held from `lock` on, until it is given back or doubted.
    """

    def __init__(
        self,
        engine: ClientInstance,
        group: str,
        needs_none: Callable[[MessageQueue], bool] = lambda _queue: False,
    ) -> None:
        self._engine = engine
        self._asker = Asker(engine)
        self._group = group
        self._needs_none = needs_none
        self._lock = threading.Lock()
        self._claims: dict[MessageQueue, _Claim] = {}
        self._asked = Book(f"group {group}", "questions for locks")
        self._is_closed = False

    def is_held(self, queue: MessageQueue, now: float) -> bool:
        """Whether the lock of a queue counts at ``now``, seconds of `rocketmq_py.clock.monotonic`.

        True from a broker's yes until `LOCK_TRUST_S` after it was asked, or until `unlock`.
        """
        claim = self._claims.get(queue)
        return claim is not None and now < claim.trusted_until

    def lock(self, queues: Iterable[MessageQueue]) -> frozenset[MessageQueue]:
        """Ask for queues, also for those that are held already; return those that brokers gave.

        One request goes to each broker, to all at the same time. A queue that a broker does not
        give is lost at once. A broker that does not answer takes nothing away: what it gave
        before counts until its time is over. After `close` nobody is asked.
        """
        queues = list(queues)
        free = frozenset(filter(self._needs_none, queues))
        with self._lock:
            if not self._is_closed:
                self._claims.update((one, _Claim(is_lent=False)) for one in free)
        return free | self._ask_for(
            lambda: {
                one: self._claims.setdefault(one, _Claim()) for one in queues if one not in free
            }
        )

    def renew(self, queues: Iterable[MessageQueue]) -> frozenset[MessageQueue]:
        """Ask again for those queues that are held or were asked for; as `lock`.

        One that was given back meanwhile is not asked for.
        """
        return self._ask_for(
            lambda: {
                one: claim
                for one in queues
                if (claim := self._claims.get(one)) is not None and claim.is_lent
            }
        )

    def _ask_for(self, claim: Callable[[], dict[MessageQueue, _Claim]]) -> frozenset[MessageQueue]:
        with self._asked.working():
            with self._lock:
                claims = {} if self._is_closed else claim()
            return self._answers(claims)

    def _answers(self, claims: Mapping[MessageQueue, _Claim]) -> frozenset[MessageQueue]:
        until = monotonic() + LOCK_TRUST_S  # not from the answer on: the lease began before that
        wanted = _by_broker(claims)
        given: set[MessageQueue] = set()
        answered: set[MessageQueue] = set()
        for broker_name, answer in self._ask(wanted).items():
            try:
                body = LockBatchResponse.decode(answer)
            except RocketMQError as error:
                self._failed(RequestCode.LOCK_BATCH_MQ, broker_name, wanted[broker_name], error)
                continue
            answered.update(wanted[broker_name])
            given.update(MessageQueue(*queue) for queue in body.lock_ok_mq_set)
        return self._note({queue: claims[queue] for queue in answered}, given, until)

    def _note(
        self, claims: Mapping[MessageQueue, _Claim], given: Collection[MessageQueue], until: float
    ) -> frozenset[MessageQueue]:
        """Note what brokers answered about these claims; return the queues that are held."""
        held: list[MessageQueue] = []
        lost: list[MessageQueue] = []
        unwanted: list[MessageQueue] = []
        with self._lock:
            for queue, claim in claims.items():
                known = self._claims.get(queue)
                if queue not in given:
                    if known is claim:
                        del self._claims[queue]
                        if claim.trusted_until != _NEVER:
                            lost.append(queue)
                elif known is claim:
                    claim.trusted_until = max(until, claim.trusted_until)
                    held.append(queue)
                elif known is None:
                    unwanted.append(queue)
        if lost:
            logger.warning(
                "group %s: brokers do not lend %s any longer, another member has them",
                self._group,
                _named(lost),
            )
        # Given back while the broker was asked; who gave them back may have been heard first.
        self._give_back(unwanted)
        return frozenset(held)

    def doubt(self, address: str) -> bool:
        """Count the queues of the broker at ``address`` as not held until they are taken anew.

        For one whose connection has ended: after a restart it knows no locks, nor what it gave out
        of popped queues in its last seconds, and gives them to others. Returns whether there are
        any.
        """
        where = self._engine.routes.broker_address
        with self._lock:
            doubted = [
                queue
                for queue in self._claims
                if where(queue.broker_name, only_this=True) == address
            ]
            for queue in doubted:  # answers that are on their way do not count
                doubtful = self._claims[queue] = _Claim(is_lent=self._claims[queue].is_lent)
                doubtful.trusted_until = _NEVER
        return bool(doubted)

    def unlock(self, queue: MessageQueue) -> None:
        """Give a queue back; it is held no longer. No answer is waited for."""
        with self._lock:
            claim = self._claims.pop(queue, None)
        if claim is not None and claim.is_lent:
            self._give_back([queue])

    def close(self, timeout: float) -> None:
        """Give every queue back and ask for none any more.

        Waits up to ``timeout`` seconds for questions that are under way: a broker may work on them
        after the request that gives their queues back.
        """
        with self._lock:
            self._is_closed = True
        self._asked.wait_until_empty(timeout)
        with self._lock:
            lent = [queue for queue, claim in self._claims.items() if claim.is_lent]
            self._claims = {}
        self._give_back(lent)

    def _give_back(self, queues: Collection[MessageQueue]) -> None:
        code = RequestCode.UNLOCK_BATCH_MQ
        for broker_name, given_back in _by_broker(queues).items():
            question = self._question(code, broker_name, given_back)
            try:
                address = self._asker.address(_master(broker_name, given_back))
                self._engine.remoting.post(address, question.command())
            except RocketMQError as error:
                self._failed(code, broker_name, given_back, error)

    def _ask(self, queues: _ByBroker) -> dict[str, bytes]:
        """Ask brokers side by side for queues; return what those said who answered."""
        code = RequestCode.LOCK_BATCH_MQ
        questions = {name: self._question(code, name, ours) for name, ours in queues.items()}
        agreed: dict[str, bytes] = {}
        for broker_name, told in self._asker.ask_all(questions, LOCK_TIMEOUT_MS).items():
            if isinstance(told, RocketMQError):
                self._failed(code, broker_name, queues[broker_name], told)
            else:
                address, agreed[broker_name] = told
                self._engine.unreachable.answered(address)
        return agreed

    def _question(
        self, code: RequestCode, broker_name: str, queues: Collection[MessageQueue]
    ) -> Question[tuple[str, bytes]]:
        body = LockBatchRequest(
            consumer_group=self._group,
            client_id=self._engine.client_id,
            mq_set=[MessageQueueKey(one.topic, one.broker_name, one.queue_id) for one in queues],
        )
        return Question(
            _master(broker_name, queues),
            code,
            lambda answer, address: (address, bytes(answer.body)),
            body=body.encode(standard=True),
        )

    def _failed(
        self,
        code: RequestCode,
        broker_name: str,
        queues: Collection[MessageQueue],
        error: RocketMQError,
    ) -> None:
        verb = "locking" if code == RequestCode.LOCK_BATCH_MQ else "unlocking"
        what = f"{verb} {_named(queues)} for group {self._group}"
        self._engine.unreachable.failed(broker_name, what, error)


def _master(broker_name: str, queues: Collection[MessageQueue]) -> Broker:
    return Broker(next(iter(queues)).topic, broker_name, only_this=True)


def _by_broker(queues: Iterable[MessageQueue]) -> dict[str, list[MessageQueue]]:
    brokers: dict[str, list[MessageQueue]] = {}
    for queue in dict.fromkeys(queues):
        brokers.setdefault(queue.broker_name, []).append(queue)
    return brokers


def _named(queues: Collection[MessageQueue]) -> str:
    first = next(iter(queues))
    rest = len(queues) - 1
    return f"{first} and {rest} more" if rest else str(first)
