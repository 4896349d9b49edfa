"""Threads on which an application answers what became of its transactions.

`Checking` takes the halves that brokers ask about (`Halves.answer_by`), asks a function of the
application on a few threads or on an executor, and ends each half with the answer. What does not
find room is dropped: the broker asks again. Must not know requests; those are in ``halves.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor

from rocketmq_py.client.background import WorkerPool
from rocketmq_py.logs import get_logger
from rocketmq_py.message import Message, MessageExt
from rocketmq_py.producer.halves import AskedHalf, Halves
from rocketmq_py.send_result import LocalTransactionState
from rocketmq_py.threads import ScheduleAfter

_log = get_logger(__name__)

Check = Callable[[MessageExt], LocalTransactionState | None]
"""Says what became of the transaction of a message."""

CHECK_TROUBLE = "checkLocalTransactionState Exception"


class Checking:
    """Asks ``check`` about halves, on ``executor`` or on up to ``threads_max`` own threads.

    At most ``hold_max`` questions wait for an own thread; ``body_size_max`` is for decompressing.
    """

    def __init__(
        self,
        halves: Halves,
        check: Check,
        *,
        executor: Executor | None = None,
        threads_max: int = 1,
        hold_max: int = 2_000,
        schedule_after: ScheduleAfter | None = None,
    ) -> None:
        self._halves = halves
        self._check = check
        self._executor = executor
        self._hold_max = hold_max
        self._pool = WorkerPool(
            "rocketmq-transaction-check", threads_max, hold_max, schedule_after=schedule_after
        )

    def start(self, threads: int) -> None:
        """Start so many own threads before there is a question."""
        self._pool.start(threads)

    def close(self, timeout: float) -> None:
        """Let questions that wait be answered within ``timeout`` seconds, and take no more."""
        self._pool.close(timeout)

    def ask(self, half: AskedHalf) -> None:
        """Take a half on the thread that reads requests; the application runs elsewhere."""
        self._halves.undecided.enter(half)
        if self._executor is None:
            if not self._pool.submit(self._answer, half):
                self._dropped(half, f"{self._hold_max} wait already (check_request_hold_max)")
            return
        try:
            answered = self._executor.submit(self._answer, half)
        except RuntimeError as error:
            self._dropped(half, f"the executor takes no work: {error}")
        else:  # also when the executor cancels it
            answered.add_done_callback(lambda _: self._halves.undecided.leave(half))

    def _dropped(self, half: AskedHalf, why: str) -> None:
        self._halves.undecided.leave(half)
        _log.warning(
            "transaction check dropped group=%s id=%s: %s; the broker asks again",
            self._halves.kernel.group,
            half.message_id,
            why,
        )

    def _answer(self, half: AskedHalf) -> None:
        """Ask the application and tell the broker, also that nothing is known yet."""

        def ask() -> LocalTransactionState | None:
            # Only now: thousands of questions may wait, and small bodies can become large ones.
            half.message = half.message.unpacked(
                self._halves.kernel.config.decompressed_body_max_bytes
            )
            return self._check(half.message)

        try:
            state, remark = decision_of(ask, CHECK_TROUBLE, half.message)
            half.end(state, remark=remark)
        finally:
            self._halves.undecided.leave(half)


def decision_of(
    ask: Callable[[], LocalTransactionState | None], trouble: str, message: Message
) -> tuple[LocalTransactionState, str | None]:
    """Ask the application; what is no state is `UNKNOW`, and so are exceptions, with a remark."""
    try:
        state: object = ask()  # a listener may return anything, whatever its annotation says
    except Exception as error:  # noqa: BLE001 - the application's; the broker is told
        _log.exception(
            "the transaction listener failed for id=%s topic=%s; its answer counts as UNKNOW",
            message.transaction_id,
            message.topic,
        )
        return LocalTransactionState.UNKNOW, f"{trouble}: {type(error).__name__}: {error}"
    if isinstance(state, LocalTransactionState):
        return state, None
    _log.warning(
        "the transaction listener returned %s for id=%s topic=%s, which counts as UNKNOW, so the "
        "broker asks again: return a LocalTransactionState",
        "None" if state is None else f"{state!r:.40}, a {type(state).__name__},",
        message.transaction_id,
        message.topic,
    )
    return LocalTransactionState.UNKNOW, None
