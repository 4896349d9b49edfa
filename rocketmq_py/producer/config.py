"""Which settings a producer has beyond those of every client.

Names and defaults of ``DefaultMQProducer`` in 5.x; every assignment is checked, so a wrong value
fails where it is written. Must not know what the settings do; each is read in the module that
obeys it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any, ClassVar, Literal

from attrs import Attribute, define, field, setters

from rocketmq_py.client.delay_policy import DELAY_POLICIES, DelayPolicy
from rocketmq_py.config import (
    UNLIMITED,
    TracedConfig,
    a_text,
    explained,
    in_milliseconds,
    member_of,
    milliseconds,
    must,
    one_of,
    setting,
    switch,
    unlimited_or,
    within,
)
from rocketmq_py.errors import ConfigError
from rocketmq_py.producer.fault import FaultTable
from rocketmq_py.protocol.codes import RETRY_RESPONSE_CODES, ResponseCode
from rocketmq_py.protocol.compression import DEFAULT_LEVEL, LEVEL_MAX
from rocketmq_py.protocol.names import AUTO_CREATE_TOPIC
from rocketmq_py.protocol.sysflag import CompressionType

StartDeliverMode = Literal["auto", "always", "never"]


def _as_set(codes: Iterable[int]) -> frozenset[int]:
    return frozenset(codes)


_a_positive_span = must(
    "be None or a positive timedelta",
    lambda value: value is None or (isinstance(value, timedelta) and value > timedelta()),
)
_codes = must(
    "be a set of response codes",
    lambda codes: (
        isinstance(codes, frozenset) and all(type(code) in {int, ResponseCode} for code in codes)
    ),
)


def _a_level(owner: ProducerConfig, setting: Attribute[int], value: int) -> None:
    kind = getattr(owner, "compress_type", None)  # of a new one: set later, and checked then
    within(0, max(LEVEL_MAX.values()) if kind is None else LEVEL_MAX[kind])(owner, setting, value)


def _a_compression(owner: ProducerConfig, setting: Attribute[Any], value: Any) -> None:
    member_of(CompressionType)(owner, setting, value)
    level, most = owner.compress_level, LEVEL_MAX[value]
    if level > most:
        limit = f"takes no compress_level above {most}, which is {level}: lower that first"
        raise ConfigError(setting.name, value, limit)


@explained
@define(kw_only=True, eq=False, on_setattr=setters.NO_OP)
class ProducerConfig(TracedConfig):
    """Settings of a producer; times are milliseconds (or a timedelta), sizes bytes.

    Arguments
    ---------
    create_topic_key, default_topic_queue_nums
        The topic whose route a new topic borrows, and how many queues it gets at most.
    send_msg_timeout
        Budget of one call, all attempts included.
    send_msg_max_timeout_per_request
        Longest single attempt while another one remains, in ms; -1: no limit, so that an attempt
        without an answer uses up `send_msg_timeout`.
    compress_msg_body_over_howmuch
        Bodies of this size and more are compressed, in bytes (4,096); batches never are.
    compress_level, compress_type
        How (5, ``CompressionType.ZLIB``): ``ZLIB`` has levels up to 9, ``LZ4`` up to 16, ``ZSTD``
        up to 22; the two last need the extras of their names. Java's
        ``rocketmq.message.compressLevel`` and ``compressType``.
    retry_times_when_send_failed, retry_times_when_send_async_failed
        Further attempts (2 each), of blocking sends and of asynchronous ones. Both are made after
        the same failures: an answer of ``retry_response_codes``, no answer, no connection, a queue
        that the newest route does not have. When a connection has too many calls in flight
        already, only a blocking send is tried again.
    retry_another_broker_when_not_store_ok
        Repeat when the message is stored, but not as safely as wanted.
    max_message_size
        Largest body, checked before sending.
    retry_response_codes
        Broker codes that are worth another broker.
    fault_table
        How long a slow or failing broker is avoided (``send_latency_enable``).
    async_sender_queue, async_sender_threads
        Asynchronous sends that may wait for a route, a connection or their next attempt, and who
        makes these.
    send_latency_enable, start_detector_enable, detect_interval, detect_timeout
        Fault avoidance: avoid slow and failing brokers, and probe them in background.
    translate_start_deliver_time
        ``auto`` and ``always``: a message that carries only ``__STARTDELIVERTIME`` is also given
        ``TIMER_DELIVER_MS``; ``never``: for vendor brokers that refuse it.
    delay_policy
        A delay that will not be kept, such as a level of 19, two delays on one message, a misspelt
        ``TIMER_...`` property, or a timer at a broker before 5.0: ``strict``: `DelayValueError`,
        and nothing is sent; ``warn``: one warning for the message, which is sent; ``as_java``: sent
        without a word, as Java clients do. The tutorial has all cases. A delivery time in the past
        is always sent, and delivered at once.
    max_delay
        Longest delay that this client sends; None = the broker decides.
    strict_reserved
        Refuse messages whose delay was given by a reserved user property, as 5.x clients do.
    """

    FIXED_BY_START: ClassVar[Mapping[str, str]] = {
        **TracedConfig.FIXED_BY_START,
        "namesrv_addr": "call update_name_server_address",
        "fault_table": "",
        "async_sender_queue": "",
        "async_sender_threads": "",
        "send_latency_enable": "",
        "start_detector_enable": "",
        "detect_interval": "",
    }

    create_topic_key: str = field(default=AUTO_CREATE_TOPIC, metadata=setting(a_text))
    default_topic_queue_nums: int = field(default=4, metadata=setting(within(1)))
    send_msg_timeout: int = field(
        default=3_000, converter=in_milliseconds, metadata=setting(milliseconds(1))
    )
    send_msg_max_timeout_per_request: int = field(
        default=UNLIMITED,
        converter=in_milliseconds,
        metadata=setting(unlimited_or(milliseconds(1))),
    )
    compress_msg_body_over_howmuch: int = field(default=4_096, metadata=setting(within(0)))
    compress_level: int = field(default=DEFAULT_LEVEL, metadata=setting(_a_level))
    compress_type: CompressionType = field(
        default=CompressionType.ZLIB, metadata=setting(_a_compression)
    )
    retry_times_when_send_failed: int = field(default=2, metadata=setting(within(0)))
    retry_times_when_send_async_failed: int = field(default=2, metadata=setting(within(0)))
    retry_another_broker_when_not_store_ok: bool = field(default=False, metadata=setting(switch))
    max_message_size: int = field(default=4_194_304, metadata=setting(within(1)))
    retry_response_codes: frozenset[int] = field(
        default=RETRY_RESPONSE_CODES, converter=_as_set, metadata=setting(_codes)
    )
    fault_table: FaultTable = field(default=FaultTable.V5, metadata=setting(member_of(FaultTable)))
    async_sender_queue: int = field(default=50_000, metadata=setting(within(1)))
    async_sender_threads: int = field(default=4, metadata=setting(within(1, 256)))
    send_latency_enable: bool = field(default=False, metadata=setting(switch))
    start_detector_enable: bool = field(default=False, metadata=setting(switch))
    detect_interval: int = field(
        default=2_000, converter=in_milliseconds, metadata=setting(milliseconds(1))
    )
    detect_timeout: int = field(
        default=200, converter=in_milliseconds, metadata=setting(milliseconds(1))
    )
    translate_start_deliver_time: StartDeliverMode = field(
        default="auto", metadata=setting(one_of("auto", "always", "never"))
    )
    delay_policy: DelayPolicy = field(default="strict", metadata=setting(one_of(*DELAY_POLICIES)))
    max_delay: timedelta | None = field(default=None, metadata=setting(_a_positive_span))
    strict_reserved: bool = field(default=False, metadata=setting(switch))
