"""How a group's offset gets to a broker that may not have met the group yet.

Must not know what the offset means: streams keep their progress so, and the replay guard its mark.
"""

from __future__ import annotations

from rocketmq_py import MessageQueue, MQBrokerException, QueueAccess

__all__ = ["store_group_offset"]

UNKNOWN_GROUP = 26
CALL_TIMEOUT_MS = 3_000


def store_group_offset(access: QueueAccess, group: str, queue: MessageQueue, offset: int) -> None:
    """Tell the broker a group's offset; a group that it does not know is introduced first.

    Brokers from 5.1 on keep no offset of a group they have not met; a pull introduces it where
    groups are made by use. Raises what `QueueAccess.store_group_offset` raises.
    """
    try:
        access.store_group_offset(group, queue, offset)
    except MQBrokerException as error:
        if error.response_code != UNKNOWN_GROUP:
            raise
        access.pull(queue, 0, 1, group=group, timeout_ms=CALL_TIMEOUT_MS).result()
        access.store_group_offset(group, queue, offset)
