"""What a failed send means: whether another try can help, when to make it, and what users are told.

A refusal for good, and a message that is stored under a weaker status than asked for, are
permanent: every further try would fail again, or store a copy. All else is about now, such as a
broker that restarts. Must not know rows, queues or how requests travel. Read on: ``sending.py``.
"""

from attrs import frozen

from rocketmq_py import (
    DelayKind,
    DelayOutOfRangeError,
    DelayValueError,
    InvalidDelayError,
    MQBrokerException,
    MQClientException,
    NoRouteError,
    PermissionDeniedError,
    RocketMQError,
    SendStatus,
    TopicNotExistError,
)
from rocketmq_py.raw import RawSend
from spark_connector.errors import InvalidRowError, WeaklyStoredError
from spark_connector.options.write_options import WriteOptions
from spark_connector.writing.encoding import NAME_END

MESSAGE_ILLEGAL = 13
WAIT_AGAIN_S = 0.1
WAIT_MOST_S = 3.2
DOUBLINGS = 5
"""After as many tries a pause has `WAIT_MOST_S`."""
DELAY_PROPERTIES = tuple(kind.value for kind in DelayKind)
_PERMANENT = (
    InvalidRowError,
    NoRouteError,
    PermissionDeniedError,
    TopicNotExistError,
    DelayValueError,
    InvalidDelayError,
    DelayOutOfRangeError,
    WeaklyStoredError,
)


@frozen
class Patience:
    """How long something that fails for now is tried again. Times are seconds of one clock.

    ``retries`` tries always follow the first one; after them it goes on until ``deadline_s``
    after the first try, 0 for no tries besides these.
    """

    retries: int
    deadline_s: float

    @classmethod
    def of(cls, options: WriteOptions) -> "Patience":
        """Return what ``sendRetries`` and ``sendDeadlineMs`` say."""
        return cls(options.send_retries, options.send_deadline_ms / 1000)

    def next_try(
        self, failed: int, first_at: float, last_at: float, now: float, *, lasting: bool = True
    ) -> float | None:
        """Return when to try again after ``failed`` tries (from 1), or None: give up.

        Tries begin at least a pause apart, which doubles each time; the last one is made when the
        deadline is over, or, not ``lasting``, no more after ``retries``. The moment may be past.
        """
        pause = min(WAIT_AGAIN_S * 2 ** min(failed - 1, DOUBLINGS), WAIT_MOST_S)
        again = last_at + pause
        if failed <= self.retries:
            return again
        end = first_at + self.deadline_s
        return min(again, end) if lasting and now < end else None


def weakness_of(answer: RawSend) -> WeaklyStoredError | None:
    """Return what a user must know of a status that is not SEND_OK; None for SEND_OK."""
    if answer.status is SendStatus.SEND_OK:
        return None
    return WeaklyStoredError(
        f"broker {answer.queue.broker_name} says {answer.status.name} for topic "
        f"{answer.queue.topic}: the message IS stored, but not as safely as the broker is set up "
        "to (flushed, or copied to a slave), so it was not sent again; acceptStatus=stored takes "
        "such answers as success",
        topic=answer.queue.topic,
    )


def is_permanent(error: Exception) -> bool:
    """Whether every further try would fail again, or do harm."""
    return isinstance(error, _PERMANENT) or (
        isinstance(error, MQBrokerException) and error.response_code == MESSAGE_ILLEGAL
    )


def explained(error: Exception, topic: str, rows: int, properties: str) -> Exception:
    """Return what a user can do about rows that the broker calls illegal (13), or the client."""
    if isinstance(error, DelayValueError):
        return InvalidRowError(f"{rows} rows of topic {topic}: {error} (option delayPolicy)")
    if not isinstance(error, MQBrokerException) or error.response_code != MESSAGE_ILLEGAL:
        return error
    text = f"the broker refuses {rows} rows of topic {topic} for good: {error}"
    if any(f"{name}{NAME_END}" in properties for name in DELAY_PROPERTIES):
        text += (
            "; a delay may be over its timerMaxDelaySec: with that as maxDelayMs such rows are "
            "found before anything is sent"
        )
    return InvalidRowError(text)


def given_up(what: str, topic: str, tries: int, waited_s: float, last: Exception) -> Exception:
    """Return the error of something that was tried as often as the options allow."""
    return MQClientException(
        f"{what}: not stored after {tries} tries in {waited_s:.1f} s: {last}; "
        "sendRetries and sendDeadlineMs say how long to go on",
        topic=topic,
    )


def plain(error: Exception) -> RocketMQError:
    """Return an error without its chain, which could not be pickled."""
    error.__cause__ = error.__context__ = error.__traceback__ = None
    return error if isinstance(error, RocketMQError) else RocketMQError(str(error))
