"""The API of RocketMQ 5.0 over the SDK, without a proxy: for ported programs.

    from compat.v5 import ClientConfiguration, Credentials, Message, Producer

    producer = Producer(ClientConfiguration("127.0.0.1:9876", Credentials()), ("orders",))
    producer.startup()
    message = Message()
    message.topic, message.body = "orders", b"cancel 42"
    message.delivery_timestamp = int(time.time()) + 1800
    producer.send(message)

Names and units are those of the official Python client (package rocketmq-python-client), and the
builders those of the 5.0 documents. Endpoints are name servers; consumers pop, and never pull.
Errors are `ClientException`: BadRequest, Forbidden, NotFound and so on by the server's answer,
`IllegalArgumentException` (a ValueError) for values that cannot be, `ConnectionException` (a
ConnectionError) without an answer. MIGRATION.md has the page for programs of the official client.
"""

from compat.v5.client import ClientConfiguration, ClientConfigurationBuilder, Credentials
from compat.v5.consumer import FilterExpression, FilterType, LitePushConsumer, LiteSimpleConsumer
from compat.v5.errors import (
    BadRequestException,
    ClosedException,
    ConnectionException,
    ForbiddenException,
    IllegalArgumentException,
    IllegalStateException,
    InternalErrorException,
    LiteSubscriptionQuotaExceededException,
    LiteTopicQuotaExceededException,
    NotFoundException,
    PayloadEmptyException,
    PayloadTooLargeException,
    PaymentRequiredException,
    ProxyTimeoutException,
    RequestHeaderFieldsTooLargeException,
    RequestTimeoutException,
    TooManyRequestsException,
    UnauthorizedException,
    UnsupportedException,
)
from compat.v5.fifo import FifoHash
from compat.v5.message import Message, MessageBuilder, MessageView, TopicMessageType
from compat.v5.producer import (
    Producer,
    ProducerBuilder,
    RecallReceipt,
    SendReceipt,
    Transaction,
    TransactionChecker,
    TransactionResolution,
)
from compat.v5.push_consumer import (
    ConsumeResult,
    MessageListener,
    PushConsumer,
    PushConsumerBuilder,
)
from compat.v5.simple_consumer import SimpleConsumer, SimpleConsumerBuilder
from compat.v5.timestamps import EpochMilliseconds, EpochSeconds
from rocketmq_py.errors import (
    BadRequestError,
    ClientException,
    ForbiddenError,
    InternalError,
    NotFoundError,
    PayloadEmptyError,
    PayloadTooLargeError,
    PaymentRequiredError,
    ProxyTimeoutError,
    RequestHeaderFieldsTooLargeError,
    TooManyRequestsError,
    UnauthorizedError,
    UnsupportedError,
)

__all__ = [
    "BadRequestError",
    "BadRequestException",
    "ClientConfiguration",
    "ClientConfigurationBuilder",
    "ClientException",
    "ClosedException",
    "ConnectionException",
    "ConsumeResult",
    "Credentials",
    "EpochMilliseconds",
    "EpochSeconds",
    "FifoHash",
    "FilterExpression",
    "FilterType",
    "ForbiddenError",
    "ForbiddenException",
    "IllegalArgumentException",
    "IllegalStateException",
    "InternalError",
    "InternalErrorException",
    "LitePushConsumer",
    "LiteSimpleConsumer",
    "LiteSubscriptionQuotaExceededException",
    "LiteTopicQuotaExceededException",
    "Message",
    "MessageBuilder",
    "MessageListener",
    "MessageView",
    "NotFoundError",
    "NotFoundException",
    "PayloadEmptyError",
    "PayloadEmptyException",
    "PayloadTooLargeError",
    "PayloadTooLargeException",
    "PaymentRequiredError",
    "PaymentRequiredException",
    "Producer",
    "ProducerBuilder",
    "ProxyTimeoutError",
    "ProxyTimeoutException",
    "PushConsumer",
    "PushConsumerBuilder",
    "RecallReceipt",
    "RequestHeaderFieldsTooLargeError",
    "RequestHeaderFieldsTooLargeException",
    "RequestTimeoutException",
    "SendReceipt",
    "SimpleConsumer",
    "SimpleConsumerBuilder",
    "TooManyRequestsError",
    "TooManyRequestsException",
    "TopicMessageType",
    "Transaction",
    "TransactionChecker",
    "TransactionResolution",
    "UnauthorizedError",
    "UnauthorizedException",
    "UnsupportedError",
    "UnsupportedException",
]
