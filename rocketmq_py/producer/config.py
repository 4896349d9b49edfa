"""Which settings a producer has beyond those of every client.

Names and defaults of ``DefaultMQProducer`` in 5.x; every assignment is checked, so a wrong value
fails where it is written. Must not know what the settings do; each is read in the module that
obeys it.
"""

from collections.abc import Mapping
from typing import ClassVar

from attrs import define, field

from rocketmq_py.config import (
    ON_ASSIGNMENT,
    UNLIMITED,
    ClientConfig,
    ClientSettings,
    a_text,
    member_of,
    milliseconds,
    must,
    switch,
    unlimited_or,
    within,
)
from rocketmq_py.producer.fault import FaultTable
from rocketmq_py.protocol.codes import RETRY_RESPONSE_CODES, ResponseCode
from rocketmq_py.protocol.names import AUTO_CREATE_TOPIC
from rocketmq_py.protocol.sysflag import CompressionType

_codes = must(
    "be a set of response codes",
    lambda codes: (
        isinstance(codes, frozenset) and all(type(code) in {int, ResponseCode} for code in codes)
    ),
)


@define(kw_only=True, eq=False, on_setattr=ON_ASSIGNMENT)
class ProducerConfig(ClientConfig):
    """Settings of a producer; times are milliseconds, sizes bytes.

    Arguments
    ---------
    create_topic_key, default_topic_queue_nums
        The topic whose route a new topic borrows, and how many queues it gets at most.
    send_msg_timeout
        Budget of one call, all attempts included.
    send_msg_max_timeout_per_request
        Longest single attempt while another one remains, in ms; -1: no limit, so that an attempt
        without an answer uses up `send_msg_timeout`.
    compress_msg_body_over_howmuch, compress_level, compress_type
        Bodies of this size and more are compressed; batches never are.
    retry_times_when_send_failed, retry_times_when_send_async_failed
        Further attempts. Asynchronous sends are not repeated after a broker's refusal, unless it
        refuses a queue that the newest route does not have.
    retry_another_broker_when_not_store_ok
        Repeat when the message is stored, but not as safely as wanted.
    max_message_size
        Largest body, checked before sending.
    retry_response_codes
        Broker codes that are worth another broker.
    fault_table
        How long a slow or failing broker is avoided (``send_latency_enable``).
    async_sender_queue, async_sender_threads
        Asynchronous sends that may wait for a route or a connection, and who gets these.
    """

    FIXED_BY_START: ClassVar[Mapping[str, str]] = {
        **ClientConfig.FIXED_BY_START,
        "namesrv_addr": "call update_name_server_address",
        "fault_table": "",
        "async_sender_queue": "",
        "async_sender_threads": "",
    }

    create_topic_key: str = field(default=AUTO_CREATE_TOPIC, validator=a_text)
    default_topic_queue_nums: int = field(default=4, validator=within(1))
    send_msg_timeout: int = field(default=3_000, validator=milliseconds(1))
    send_msg_max_timeout_per_request: int = field(
        default=UNLIMITED, validator=unlimited_or(1, unit="milliseconds")
    )
    compress_msg_body_over_howmuch: int = field(default=4_096, validator=within(0))
    compress_level: int = field(default=5, validator=within(0, 22))
    compress_type: CompressionType = field(
        default=CompressionType.ZLIB, validator=member_of(CompressionType)
    )
    retry_times_when_send_failed: int = field(default=2, validator=within(0))
    retry_times_when_send_async_failed: int = field(default=2, validator=within(0))
    retry_another_broker_when_not_store_ok: bool = field(default=False, validator=switch)
    max_message_size: int = field(default=4_194_304, validator=within(1))
    retry_response_codes: frozenset[int] = field(
        default=RETRY_RESPONSE_CODES, converter=frozenset, validator=_codes
    )
    fault_table: FaultTable = field(default=FaultTable.V5, validator=member_of(FaultTable))
    async_sender_queue: int = field(default=50_000, validator=within(1))
    async_sender_threads: int = field(default=4, validator=within(1, 256))


class ProducerSettings(ClientSettings, total=False):
    """The settings of `ProducerConfig` as keyword arguments of a producer."""

    create_topic_key: str
    default_topic_queue_nums: int
    send_msg_timeout: int
    send_msg_max_timeout_per_request: int
    compress_msg_body_over_howmuch: int
    compress_level: int
    compress_type: CompressionType
    retry_times_when_send_failed: int
    retry_times_when_send_async_failed: int
    retry_another_broker_when_not_store_ok: bool
    max_message_size: int
    retry_response_codes: frozenset[int] | set[int]
    fault_table: FaultTable
    async_sender_queue: int
    async_sender_threads: int
