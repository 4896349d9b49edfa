"""Relays: what a tool asks a consumer through its broker.

RocketMQ's AdminBrokerProcessor.callConsumer and Broker2Client.getConsumeStatus: the broker finds
the connection of a member, hands the question on, and the answer back. Must not know: requests.
Read on: `core/client_calls.py`.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from attrs import define, frozen

from embedded_broker.core.client_calls import (
    CLIENT_WAIT_MS,
    Answer,
    Call,
    ClientCalls,
    ConsumeDirectly,
    End,
    TellOffsets,
    TellRunningInfo,
)
from embedded_broker.core.environment import Environment
from embedded_broker.core.guards import Caller
from embedded_broker.core.refusals import Reason, Refused
from embedded_broker.tables.broker_tables import Tables
from embedded_broker.tables.consumers.registry import Member
from rocketmq_py.errors import BodyError
from rocketmq_py.protocol.bodies.consumption import ConsumerStatus
from rocketmq_py.protocol.bodies.document import MessageQueueKey
from rocketmq_py.protocol.codes import MQVersion
from rocketmq_py.protocol.handles import decode_offset_id

STATUS_WAIT_MS: Final = 5_000


@frozen
class Relayed:
    """What a client has answered: `refusal` says why it did not do it."""

    body: bytes = b""
    refusal: Refused | None = None


OnRelayed = Callable[[Relayed], None]
Statuses = dict[str, dict[MessageQueueKey, int]]


@define(eq=False, kw_only=True)
class Relays:
    """Hands questions on to the members of groups. Used under the door."""

    _env: Environment
    _tables: Tables
    _calls: ClientCalls

    def running_info(
        self, group: str, client_id: str, on_end: OnRelayed, *, with_stacks: bool = False
    ) -> None:
        """Ask a member how it is; refuses when it is not there."""
        member = self._member(group, client_id)
        self._relay(group, member, TellRunningInfo(group, member.client_id, with_stacks), on_end)

    def consume(
        self,
        group: str,
        client_id: str,
        msg_id: str,
        topic: str | None,
        on_end: OnRelayed,
        caller: Caller,
    ) -> None:
        """Let a member consume a stored message, named by its offset id, now.

        Refuses one of a topic that the caller may not read.
        """
        record = self._record(msg_id, caller)
        member = self._member(group, client_id)
        config, settings = self._tables.topics.get(topic or ""), self._tables.groups.get(group)
        call = ConsumeDirectly(
            group=group,
            client_id=member.client_id,
            msg_id=msg_id,
            topic=topic,
            broker_name=self._env.broker_name,
            topic_sys_flag=None if config is None else config.topic_sys_flag,
            group_sys_flag=None if settings is None else settings.group_sys_flag,
            record=record,
        )
        self._relay(group, member, call, on_end)

    def _record(self, msg_id: str, caller: Caller) -> bytes:
        try:
            _, _, offset = decode_offset_id(msg_id)
        except ValueError as error:
            raise Refused(Reason.FAILED, f"{msg_id!r} is no offset message id: {error}") from error
        record, view = self._env.store.queued(offset), self._env.store.read(offset)
        if record is None or view is None:
            raise Refused(Reason.FAILED, f"can not find message by the offset, {offset}")
        caller.demand_to_read(record)
        return bytes(view)

    def _member(self, group: str, client_id: str) -> Member:
        live = self._tables.consumers.get(group)
        for member in () if live is None else live.members.values():
            if member.client_id == client_id:
                break
        else:
            raise Refused(Reason.FAILED, f"The Consumer <{group}> <{client_id}> not online")
        if member.version < MQVersion.V3_1_8_SNAPSHOT:
            raise Refused(
                Reason.FAILED,
                f"The Consumer <{client_id}> Version <{member.version}> too low to finish, please "
                "upgrade it to V3_1_8_SNAPSHOT",
            )
        return member

    def _relay(self, group: str, member: Member, call: Call, on_end: OnRelayed) -> None:
        who = f"consumer <{group}> <{member.client_id}>"

        def ended(how: End, answer: Answer | None) -> None:
            refusal = None
            if how is End.TIMED_OUT:
                refusal = Refused(Reason.CONSUME_MSG_TIMEOUT, f"{who} Timeout: {CLIENT_WAIT_MS} ms")
            elif answer is None:
                refusal = Refused(Reason.FAILED, f"invoke {who} Exception: it left")
            elif not answer.accepted:
                refusal = Refused(Reason.FAILED, answer.remark or "")
            on_end(Relayed(b"" if answer is None else answer.body, refusal))

        self._calls.ask(member.connection, call, on_end=ended, wait_ms=CLIENT_WAIT_MS)

    def offsets(
        self,
        group: str,
        topic: str,
        client_id: str | None,
        on_end: Callable[[Statuses], None],
    ) -> None:
        """Ask the members of a group, or one of them, how far they are in a topic.

        Those that do not answer in time are left out. Refuses when nobody is there.
        """
        live = self._tables.consumers.get(group)
        if live is None:
            raise Refused(
                Reason.CONSUMER_NOT_ONLINE,
                f"No Any Consumer online in the consumer group: [{group}]",
            )
        asked = [one for one in live.members.values() if client_id in {None, "", one.client_id}]
        found: Statuses = {}
        left = len(asked)
        if not left:
            on_end(found)

        def ended(member: Member, _how: End, answer: Answer | None) -> None:
            nonlocal left
            left -= 1
            if answer is not None and answer.accepted and answer.body:
                try:
                    status = ConsumerStatus.decode(answer.body)
                except BodyError:
                    status = ConsumerStatus()  # as if it had not answered
                found[member.client_id] = status.message_queue_table or {}
            if not left:
                on_end(found)

        for member in asked:
            self._calls.ask(
                member.connection,
                TellOffsets(group, topic),
                on_end=partial(ended, member),
                wait_ms=STATUS_WAIT_MS,
            )
