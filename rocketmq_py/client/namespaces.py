"""What a namespace changes between a client and its servers: names on the wire, and two fields.

Namespace v1 (``NamespaceUtil`` of the original): servers see ``shop%orders`` where the program says
``orders``. `Namespace` puts names into requests and takes them out of what arrives, so nothing else
of a client knows of it; ``remoting.py`` and ``instance.py`` call it, once for each command. Where
names stand in which command is told by the tables below. Namespace v2 (``NamespaceRpcHook`` of 5.x)
leaves names alone and is two header fields. The rule for one name is in ``protocol/names.py``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from struct import Struct
from typing import Any, Final

from attrs import evolve, field, frozen

from rocketmq_py.errors import BodyError
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.lenient_json import dumps_fastjson, loads_lenient
from rocketmq_py.protocol.message_codec import MAGIC_V1, MAGIC_V2
from rocketmq_py.protocol.names import RETRY_PREFIX, is_own_name, with_namespace, without_namespace
from rocketmq_py.protocol.properties import Prop
from rocketmq_py.protocol.sysflag import BORN_HOST_V6, STORE_HOST_V6

_C: Final = RequestCode

NAMESPACE_V2: Final = "ns"
IS_NAMESPACED_V2: Final = "nsd"

_GROUP_FIELDS: Final = ("consumerGroup", "producerGroup", "group", "groupName", "compareGroup")
_FIELDS: Final = (*_GROUP_FIELDS, "topic", "originTopic", "srcGroup", "destGroup")
_LIST_FIELDS: Final = {"topicList": ";", "filterGroups": ","}
"""Fields with several names, and what stands between them."""
_SHORT_FIELDS: Final = ("a", "b")
"""Producer group and topic of a send in the short form, whose properties are ``i``."""

_SHORT_SENDS: Final = frozenset(
    {_C.SEND_MESSAGE_V2, _C.SEND_BATCH_MESSAGE, _C.SEND_REPLY_MESSAGE_V2}
)
_LONG_SENDS: Final = frozenset({_C.SEND_MESSAGE, _C.SEND_REPLY_MESSAGE})

_KEYS: Final = frozenset({"topic", "group", "groupName", "consumerGroup", "topicName"})
_BODY_KEYS: Final[Mapping[int, frozenset[str]]] = {
    _C.HEART_BEAT: _KEYS,
    _C.LOCK_BATCH_MQ: _KEYS,
    _C.UNLOCK_BATCH_MQ: _KEYS,
    _C.CHECK_CLIENT_CONFIG: _KEYS,
    _C.UPDATE_AND_CREATE_TOPIC_LIST: _KEYS,
    _C.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: _KEYS,
    _C.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: _KEYS,
    _C.QUERY_ASSIGNMENT: _KEYS,
    _C.SET_MESSAGE_REQUEST_MODE: _KEYS,
    _C.BATCH_ACK_MESSAGE: frozenset({"consumerGroup", "c", "t"}),
}
"""Requests whose body is a document with names, and under which keys these stand."""
_ANSWERED_BODY_KEYS: Final[Mapping[int, frozenset[str]]] = dict.fromkeys(
    (_C.GET_CONSUMER_STATUS_FROM_CLIENT, _C.GET_CONSUMER_RUNNING_INFO), _KEYS
)
"""The same of answers to requests of a broker."""

_RECORDS: Final = frozenset(
    {
        *(_C.PULL_MESSAGE, _C.LITE_PULL_MESSAGE, _C.POP_MESSAGE, _C.PEEK_MESSAGE),
        *(_C.QUERY_MESSAGE, _C.VIEW_MESSAGE_BY_ID),
        *(_C.CHECK_TRANSACTION_STATE, _C.CONSUME_MESSAGE_DIRECTLY),
    }
)
"""What is answered with stored messages, and requests of a broker that carry one.

The answer to the last one is a document, which begins with a brace as no record does.
"""
_TABLES: Final = frozenset(
    {
        *(_C.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, _C.GET_TOPICS_BY_CLUSTER),
        *(_C.GET_ALL_TOPIC_CONFIG, _C.GET_ALL_SUBSCRIPTIONGROUP_CONFIG),
        *(_C.QUERY_TOPIC_CONSUME_BY_WHO, _C.QUERY_TOPICS_BY_CONSUMER, _C.GET_TIMER_METRICS),
    }
)
"""What is answered with all names that a server has: those of other namespaces are not for us."""
_TABLE_KEYS: Final = (
    *("topicList", "groupList", "topicConfigTable", "subscriptionGroupTable", "forbiddenTable"),
    "timingCount",
)
_NOT_NAMES: Final = frozenset(
    {
        *(_C.GET_KV_CONFIG, _C.GET_KVLIST_BY_NAMESPACE, _C.PUSH_REPLY_MESSAGE_TO_CLIENT),
        *(_C.AUTH_GET_USER, _C.AUTH_LIST_USER, _C.AUTH_GET_ACL, _C.AUTH_LIST_ACL),
        *(_C.GET_BROKER_CONFIG,),
    }
)
"""Bodies that are left as they are: an administrator writes them with the names on the wire."""

_NAMED_BY_SENDERS: Final = (Prop.PGROUP, Prop.RETRY_TOPIC)
_NAMED_IN_RECORDS: Final = (*_NAMED_BY_SENDERS, Prop.REAL_TOPIC, Prop.DLQ_ORIGIN_TOPIC)
"""Properties whose values are names of topics and groups."""

_BEFORE_HOSTS: Final = 48
_SYS_FLAG_AT: Final = 36
_RECORD_MIN: Final = 91
_INT: Final = Struct(">i")
_SHORT: Final = Struct(">H")


@frozen
class Namespace:
    """The namespaces of one client, as a value: what leaves gets them, what arrives loses them.

    Nothing is changed in place but requests that leave, and those may come more than once.

    >>> shop = Namespace("shop")
    >>> request = RemotingCommand(RequestCode.GET_ROUTEINFO_BY_TOPIC, ext_fields={"topic": "T"})
    >>> shop.leaves(request)
    >>> request.ext_fields
    {'topic': 'shop%T'}
    """

    v1: str = ""
    v2: str = ""
    _mark: re.Pattern[bytes] = field(init=False, repr=False, eq=False)
    _mark_of_pops: re.Pattern[bytes] = field(init=False, repr=False, eq=False)

    @_mark.default
    def _where_a_name_begins(self) -> re.Pattern[bytes]:
        return re.compile(rb"(?<![A-Za-z0-9_|-])" + re.escape(self.v1.encode()) + b"%")

    @_mark_of_pops.default
    def _where_a_popped_topic_begins(self) -> re.Pattern[bytes]:
        return re.compile(rb"(%RETRY%[A-Za-z0-9_|-]+_)" + re.escape(self.v1.encode()) + b"%")

    # --- one name --------------------------------------------------------------------------

    def wire(self, name: str, group: str | None = None) -> str:
        """Give a name as servers know it; ``group`` (on the wire) tells retry topics of its pops.

        >>> Namespace("shop").wire("%RETRY%g_T", "shop%g")
        '%RETRY%shop%g_shop%T'
        """
        if group:
            bare = without_namespace(self.v1, group)
            for separator in "_+":
                for one in (bare, group):
                    known = f"{RETRY_PREFIX}{one}{separator}"
                    if name.startswith(known):
                        topic = with_namespace(self.v1, name.removeprefix(known))
                        return f"{RETRY_PREFIX}{group}{separator}{topic}"
        return with_namespace(self.v1, name)

    def _bare(self, text: str) -> str:
        return self._bare_text(text.encode("utf-8", "surrogatepass")).decode(
            "utf-8", "surrogatepass"
        )

    def _bare_text(self, text: bytes) -> bytes:
        """Take the namespace off each name of a text."""
        return self._mark_of_pops.sub(rb"\1", self._mark.sub(b"", text))

    # --- what leaves -----------------------------------------------------------------------

    def leaves(self, request: RemotingCommand) -> None:
        """Put the namespace into a request of this client."""
        fields = request.ext_fields
        if self.v2:
            fields[IS_NAMESPACED_V2] = "true"
            fields[NAMESPACE_V2] = self.v2
        if not self.v1:
            return
        code = request.code
        names = _SHORT_FIELDS if code in _SHORT_SENDS else _FIELDS
        group: str | None = None
        for name in names:  # groups come first
            value = fields.get(name)
            if value:
                fields[name] = value = self.wire(value, group)
                if name in _GROUP_FIELDS:
                    group = group or value
        for name, between in _LIST_FIELDS.items():
            if fields.get(name):
                fields[name] = between.join(map(self.wire, fields[name].split(between)))
        if code in _SHORT_SENDS:
            fields["i"] = self._sent_properties(fields.get("i", ""))
        elif code in _LONG_SENDS:
            fields["properties"] = self._sent_properties(fields.get("properties", ""))
        if code in _BODY_KEYS and request.body:
            document = self._wire_document(loads_lenient(request.body), _BODY_KEYS[code])
            request.body = dumps_fastjson(document, dialect="standard")

    def answers(self, code: int, answer: RemotingCommand) -> RemotingCommand:
        """Give the answer to a broker's request of this code as the broker knows names."""
        keys = _ANSWERED_BODY_KEYS.get(code)
        if not self.v1 or keys is None or not answer.body:
            return answer
        document = self._wire_document(loads_lenient(answer.body), keys)
        return evolve(answer, body=dumps_fastjson(document))

    def _sent_properties(self, text: str) -> str:
        changed = []
        for item in filter(None, text.split("\x02")):
            name, _, value = item.partition("\x01")
            if name in _NAMED_BY_SENDERS:
                value = self.wire(value)
            if name != Prop.INSTANCE_ID:
                changed.append(f"{name}\x01{value}")
        changed.append(f"{Prop.INSTANCE_ID}\x01{self.v1}")
        return "\x02".join(changed) + "\x02"

    def _wire_document(self, value: Any, keys: frozenset[str]) -> Any:  # Any: JSON
        if isinstance(value, dict):
            return {
                self._wire_key(key, keys): self.wire(one)
                if key in keys and isinstance(one, str)
                else self._wire_document(one, keys)
                for key, one in value.items()
            }
        if isinstance(value, list):
            return [self._wire_document(one, keys) for one in value]
        return value

    def _wire_key(self, key: Any, keys: frozenset[str]) -> Any:  # Any: a text, or an object's pairs
        if not isinstance(key, tuple):
            return key
        return tuple(self._wire_document(dict(key), keys).items())

    # --- what arrives ----------------------------------------------------------------------

    def arrives(self, code: int, answer: RemotingCommand) -> RemotingCommand:
        """Give the answer to a request of this code with the names of the program."""
        mark = f"{self.v1}%"
        if not self.v1 or not (answer.body or mark in (answer.remark or "")):
            return answer
        remark = answer.remark
        if remark and code not in _NOT_NAMES:
            remark = self._bare(remark)
        return evolve(answer, remark=remark, body=self._bare_body(code, answer.body))

    def hears(self, request: RemotingCommand) -> RemotingCommand:
        """Give a request of a broker with the names of the program."""
        if not self.v1:
            return request
        fields = dict(request.ext_fields)
        for name in _FIELDS:
            if fields.get(name):
                fields[name] = self._bare(fields[name])
        if fields.get("properties"):
            encoded = fields["properties"].encode("utf-8", "surrogatepass")
            fields["properties"] = self._bare_properties(encoded).decode("utf-8", "surrogatepass")
        return evolve(request, ext_fields=fields, body=self._bare_body(request.code, request.body))

    def _bare_body(self, code: int, body: bytes) -> bytes:
        if not body or code in _NOT_NAMES:
            return body
        body = bytes(body)
        is_document = body[:1] in {b"{", b"["}
        if code in _RECORDS and not is_document:
            return bare_records(body, self.v1, self._bare_text, self._bare_properties)
        if code in _TABLES:
            return self._own_names(body)
        return self._bare_text(body) if is_document else body

    def _own_names(self, body: bytes) -> bytes:
        """Leave of a server's names those of the namespace, and those of RocketMQ itself."""
        try:
            document = loads_lenient(body)
        except BodyError:
            return body  # whoever reads it says so
        if not isinstance(document, dict):
            return body
        for key in _TABLE_KEYS:
            names = document.get(key)
            if isinstance(names, dict):
                kept = set(self._own(names))
                document[key] = {name: one for name, one in names.items() if name in kept}
            elif isinstance(names, list):
                document[key] = list(self._own(names))
        return self._bare_text(dumps_fastjson(document))

    def _own(self, names: Iterable[object]) -> Iterable[str]:
        for name in names:
            if isinstance(name, str) and (
                is_own_name(name) or without_namespace(self.v1, name) != name
            ):
                yield name

    def _bare_properties(self, properties: bytes) -> bytes:
        if self.v1.encode() not in properties:
            return properties
        changed = []
        for item in properties.split(b"\x02"):
            name, between, value = item.partition(b"\x01")
            if name.decode("utf-8", "replace") in _NAMED_IN_RECORDS:
                value = self._bare_text(value)
            changed.append(name + between + value)
        return b"\x02".join(changed)


def bare_records(
    body: bytes,
    namespace: str,
    bare_name: Callable[[bytes], bytes],
    bare_properties: Callable[[bytes], bytes],
) -> bytes:
    """Give stored messages, back to back, with other topics and properties.

    From where something is no record all stays as it is: whoever reads it says so.
    """
    if namespace.encode() not in body:
        return body
    parts: list[bytes] = []
    at, end = 0, len(body)
    while end - at >= _RECORD_MIN:
        size = _INT.unpack_from(body, at)[0]
        record = body[at : at + size] if _RECORD_MIN <= size <= end - at else None
        changed = None if record is None else _bare_record(record, bare_name, bare_properties)
        if changed is None:
            break
        parts.append(changed)
        at += size
    parts.append(body[at:])
    return b"".join(parts)


def _bare_record(
    record: bytes,
    bare_name: Callable[[bytes], bytes],
    bare_properties: Callable[[bytes], bytes],
) -> bytes | None:
    """Give one record; None for what is none."""
    magic = _INT.unpack_from(record, 4)[0]
    flag = _INT.unpack_from(record, _SYS_FLAG_AT)[0]
    hosts = (20 if flag & BORN_HOST_V6 else 8) + (20 if flag & STORE_HOST_V6 else 8)
    body_at = _BEFORE_HOSTS + 8 + hosts + 12  # store time; attempts and the prepared offset
    if magic not in {MAGIC_V1, MAGIC_V2} or len(record) < body_at + 4:
        return None
    topic_at = body_at + 4 + _INT.unpack_from(record, body_at)[0]
    width = 1 if magic == MAGIC_V1 else 2
    if not body_at < topic_at <= len(record) - width - 2:
        return None
    name_at = topic_at + width
    props_at = name_at + int.from_bytes(record[topic_at:name_at])
    if props_at > len(record) - 2:
        return None
    props_end = props_at + 2 + _SHORT.unpack_from(record, props_at)[0]
    if props_end != len(record):
        return None
    topic = bare_name(record[name_at:props_at])
    properties = bare_properties(record[props_at + 2 :])
    parts = (
        record[4:topic_at],
        len(topic).to_bytes(width),
        topic,
        _SHORT.pack(len(properties)),
        properties,
    )
    return _INT.pack(4 + sum(map(len, parts))) + b"".join(parts)
