"""Where a message is: requests 12 and 33.

RocketMQ's QueryMessageProcessor: by key or unique id over the index, by commit-log offset without
it. A query returns hash collisions too; the client compares the keys.
"""

from embedded_broker.core.broker_core import BrokerCore
from embedded_broker.remoting.endpoint import Request, RequestError
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.headers.query import (
    QueryMessageRequestHeader,
    QueryMessageResponseHeader,
    ViewMessageRequestHeader,
)


class QueryMessageProcessor:
    """Finds stored records."""

    def __init__(self, core: BrokerCore) -> None:
        self._core = core

    def register(self) -> None:
        """Take over the requests of this module."""
        self._core.endpoint.register(RequestCode.QUERY_MESSAGE, self.query)
        self._core.endpoint.register(RequestCode.VIEW_MESSAGE_BY_ID, self.view)

    def query(self, request: Request) -> RemotingCommand:
        """12: records with a key, in the order of the log; none: 22.

        Whether the key is a UNIQ_KEY is told by the value of `_UNIQUE_KEY_QUERY`, not by its
        presence; then the number of hits is the broker's (defaultQueryMaxNum), and at most
        maxMsgsNumBatch in any case (MessageStore.query). The time range is on store time.
        """
        command = request.command
        store = self._core.store
        header = QueryMessageRequestHeader.from_ext(command.ext_fields)
        found = store.query(
            header.topic,
            header.key,
            header.max_num,
            header.begin_timestamp,
            header.end_timestamp,
            unique=bool(header.unique_key_query),
        )
        if not found:
            raise RequestError(
                ResponseCode.QUERY_NOT_FOUND,
                "can not find message, maybe time range not correct",
            )
        answer = command.answer(
            ResponseCode.SUCCESS,
            ext_fields=QueryMessageResponseHeader(
                index_last_update_timestamp=store.last_store_timestamp,
                index_last_update_phyoffset=store.log.max_offset,
            ).to_ext(),
        )
        answer.body_parts = found
        return answer

    def view(self, request: Request) -> RemotingCommand:
        """33: the record that begins at a commit-log offset; anything else there: 1."""
        header = ViewMessageRequestHeader.from_ext(request.command.ext_fields)
        record = self._core.store.read(header.offset)
        if record is None:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR, f"can not find message by the offset, {header.offset}"
            )
        answer = request.command.answer(ResponseCode.SUCCESS)
        answer.body_parts = (record,)
        return answer
