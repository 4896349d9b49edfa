"""A broker begins anew behind the connections of the old one.

Answers: what a reset keeps (connections, and which clients are members of which group, since that
was said by living clients) and what each waiting request hears: a parked pull is asked again of
the new state, so that its client learns that its offset is gone. Must not know: files, threads.
Read on: ``embedded_broker/lifecycle/ensemble.py`` (``reset``), which calls this under the door.
"""

from embedded_broker.lifecycle.parts import BrokerParts
from rocketmq_py.protocol.names import retry_topic

__all__ = ["succeed"]


def succeed(old: BrokerParts, new: BrokerParts) -> None:
    """Let ``new`` go on with the clients of ``old``. Under the door, both endpoints are one."""
    new.consumers.take_over(old.consumers)
    new.producers.take_over(old.producers)
    for name in new.consumers.groups():
        group = new.groups.find(name)
        if group is not None:
            new.topics.ensure(retry_topic(name), group.retry_queue_nums)
        _begin_anew(name, old, new)
    old.durability.give_up_waiting()
    old.calls.forget_all()
    old.consume.hand_over(new.consume)


def _begin_anew(group: str, old: BrokerParts, new: BrokerParts) -> None:
    """Let a group's clients hear that the queues which they were reading begin at 0 again.

    Else one that counts further messages from before would skip as many of the new ones.
    """
    for topic in old.deliveries.topics_of(group):
        config = old.topics.get(topic)
        for queue_id in range(0 if config is None else config.read_queue_nums):
            if old.deliveries.next_offset(group, topic, queue_id):
                new.offsets.begin_anew(group, topic, queue_id)
