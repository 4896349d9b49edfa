"""Looking up messages by key or offset: requests 12 and 33.

RocketMQ's QueryMessageProcessor as far as headers and codes go. Read on:
`embedded_broker/core/queries.py`.
"""

from functools import partial

from attrs import define

from embedded_broker.core.queries import Queries
from embedded_broker.remoting.endpoint import Endpoint
from embedded_broker.remoting.long_requests import Work, elsewhere
from embedded_broker.remoting.requests import Request
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.headers.consume import (
    QueryMessageRequestHeader,
    QueryMessageResponseHeader,
    ViewMessageRequestHeader,
)


@define(eq=False)
class QueryMessageProcessor:
    """Finds stored records."""

    _queries: Queries
    _endpoint: Endpoint

    def register(self) -> None:
        """Take over the requests of this module."""
        endpoint = self._endpoint
        endpoint.register_long(RequestCode.QUERY_MESSAGE, self.query)
        endpoint.register(RequestCode.VIEW_MESSAGE_BY_ID, self.view)

    def query(self, request: Request) -> Work:
        """12: records with a key, in the order of the log; none: 22.

        Whether the key is a UNIQ_KEY is told by the value of `_UNIQUE_KEY_QUERY`, not by its
        presence.
        """
        header = QueryMessageRequestHeader.from_ext(request.command.ext_fields)
        if self._queries.takes_long:
            yield elsewhere
        places = yield partial(
            self._queries.places,
            header.topic,
            header.key,
            header.max_num,
            header.begin_timestamp,
            header.end_timestamp,
            unique=bool(header.unique_key_query),
        )
        hits = self._queries.hits(header.topic, header.key, places)
        answer = request.command.answer(
            ResponseCode.SUCCESS,
            ext_fields=QueryMessageResponseHeader(
                index_last_update_timestamp=hits.last_stored_ms,
                index_last_update_phyoffset=hits.log_end,
            ).to_ext(),
        )
        answer.body_parts = hits.records
        return answer

    def view(self, request: Request) -> RemotingCommand:
        """33: the record that begins at a commit-log offset; anything else there: 1.

        Whose topic it is decides who gets it: a header of 4.9 names none.
        """
        header = ViewMessageRequestHeader.from_ext(request.command.ext_fields)
        answer = request.command.answer(ResponseCode.SUCCESS)
        answer.body_parts = (self._queries.at(header.offset, self._endpoint.caller(request)),)
        return answer
