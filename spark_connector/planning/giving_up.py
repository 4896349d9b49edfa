"""What is said when queues stay away, and whether the read ends or goes on without them.

The one place of these words, for batches, first starts and streams that run. Must not know who
looked for the queues, nor how long.
"""

import logging
from collections.abc import Sequence

from rocketmq_py import MQBrokerException, MQClientException
from spark_connector.errors import GO_ON, RocketMQDataLossError
from spark_connector.options.read_options import ReadOptions

_log = logging.getLogger("spark_connector")

SHOWN = 8
"""So many of the queues that are away are named in one text."""


def give_up(
    options: ReadOptions, text: str, *, topic: str | None = None, without: str = "them"
) -> None:
    """Raise `RocketMQDataLossError`; with ``failOnDataLoss=false`` warn that the read goes on."""
    if options.fail_on_data_loss:
        raise RocketMQDataLossError(f"{text}; {GO_ON}", topic=topic)
    _log.warning("%s; going on without %s", text, without)


def missing(options: ReadOptions, away: Sequence[str]) -> str:
    """Return the text for queues whose grace is over, each in words."""
    return f"queues have been missing {for_the_grace(options)}: {shown(away)}"


def refused(
    options: ReadOptions, topic: str, broker: str, where: str, answer: MQBrokerException
) -> MQClientException:
    """Return the error for a broker that answered all the time, and told nothing.

    ``where`` says what the stream wants of it.
    """
    return MQClientException(
        f"broker {broker} has refused {for_the_grace(options)} to tell the bounds of topic "
        f"{topic}; {where}; the last answer was: {answer}; check the credentials and what they "
        "permit, then start the query again",
        response_code=answer.response_code,
        topic=topic,
    )


def for_the_grace(options: ReadOptions) -> str:
    """Return how long queues may be away, in words."""
    return f"for {options.missing_queue_grace_ms} ms (missingQueueGraceMs)"


def shown(away: Sequence[str]) -> str:
    """Name the first of the queues that are away, and how many more there are."""
    more = f"; and {len(away) - SHOWN} more" * (len(away) > SHOWN)
    return "; ".join(away[:SHOWN]) + more
