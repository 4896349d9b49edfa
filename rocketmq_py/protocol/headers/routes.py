"""What asking a name server says in its headers: request 105. Request 106 and 206 have none."""

from __future__ import annotations

from rocketmq_py.protocol.headers import Flag, Header, Text, optional, required


class GetRouteInfoRequestHeader(Header):
    """105: where a topic's queues are. The flag asks for quoted keys in the answer."""

    topic: Text = required("topic")
    accept_standard_json_only: Flag | None = optional("acceptStandardJsonOnly")
