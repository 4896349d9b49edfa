"""A price that is asked for by message and answered by message, with everything that can go wrong.

* Nobody answers in time: the asker gets `RequestTimeoutException`, and may ask again.
* The question is wrong: it is answered, too, with what is wrong. Whoever left it unanswered would
  let the asker wait, and the broker deliver the question again and again.
* The asker waits no longer: its question is passed over, and a reply that comes too late is logged.
* A question may be delivered twice: answering must change nothing, or be idempotent.

The broker is the one that NAMESRV_ADDR names:

    export NAMESRV_ADDR=127.0.0.1:9876
    python request_reply.py serve      # until Ctrl-C or SIGTERM; as many of them as you like
    python request_reply.py ask tea
"""

from __future__ import annotations

import json
import logging
import sys
from dataclasses import dataclass
from datetime import timedelta

from rocketmq_py import (
    ApplicationClock,
    DefaultMQProducer,
    DefaultMQPushConsumer,
    Delivery,
    Message,
    RequestTimeoutException,
    RocketMQError,
    SystemClock,
    create_reply_message,
)
from rocketmq_py.admin import AdminClient

TOPIC, GROUP = "PriceQuestions", "prices"
PATIENCE = timedelta(seconds=3)
TOO_OLD = timedelta(minutes=1)
"""More than the patience of anybody, and the difference between the clocks of two machines."""
PRICES = {"tea": 420, "coffee": 560}
log = logging.getLogger("prices")


class PriceError(Exception):
    """The other side has answered that it has no price."""


def ask(producer: DefaultMQProducer, item: str, patience: timedelta = PATIENCE) -> int:
    """Ask for the price of an item, in cents.

    Raises `PriceError` for what is not sold, `RequestTimeoutException` when nobody answers.
    """
    question = Message(TOPIC, json.dumps({"item": item}).encode(), keys=item)
    answer = json.loads(producer.request(question, timeout=patience).body)
    if "error" in answer:
        raise PriceError(answer["error"])
    return int(answer["cents"])


def answer_to(body: bytes) -> dict[str, object]:
    """Answer a question; a wrong one gets what is wrong."""
    try:
        item = json.loads(body)["item"]
        return {"cents": PRICES[item]}
    except (ValueError, TypeError, KeyError) as error:
        return {"error": f"no price for {body[:100]!r}: {error!r}"}


@dataclass(frozen=True)
class Prices:
    """Answers questions, with the producer that sends the replies."""

    producer: DefaultMQProducer
    clock: ApplicationClock

    def on_question(self, delivery: Delivery) -> None:
        """Answer a question. It is settled in any case: a second answer would help nobody."""
        question = delivery.message
        age = timedelta(milliseconds=self.clock.now_ms - question.store_timestamp)
        if age > TOO_OLD:
            log.info("question %s is %s old: nobody waits for it", question.msg_id, age)
        else:
            try:
                reply = json.dumps(answer_to(question.body)).encode()
                self.producer.send(create_reply_message(question, reply))
            except RocketMQError as error:  # who asked is gone, or the message is no request
                log.warning("question %s has no answer: %s", question.msg_id, error)
        delivery.ack()

    def consumer(self) -> DefaultMQPushConsumer:
        """Make the consumer of questions; a new group begins with those that come from now on."""
        consumer = DefaultMQPushConsumer(GROUP)
        consumer.subscribe(TOPIC)
        consumer.register_message_listener(self.on_question)
        return consumer


def main(*words: str) -> None:
    logging.basicConfig(level=logging.INFO)
    with AdminClient() as admin:
        admin.ensure_topic(TOPIC)
    with DefaultMQProducer("shop") as producer:
        match words:
            case ["serve"]:
                Prices(producer, SystemClock()).consumer().run()
            case ["ask", item]:
                try:
                    print(f"{item}: {ask(producer, item)} cents")
                except (PriceError, RequestTimeoutException) as error:
                    sys.exit(str(error))
            case _:
                sys.exit(__doc__)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except RocketMQError as error:  # its text says what to do
        sys.exit(f"request_reply: {error}")
