"""The asyncio face of the SDK: clients whose calls are awaited, over the same engine of threads.

`Producer` sends, `Consumer` receives, `LitePullConsumer` is asked for messages, `AdminClient`
administers. Nothing here blocks the event loop, and there is no second transport: a call is begun
on the loop's thread, the client's own threads do the work, and what they have comes back to the
loop, many with one wake-up. ``import rocketmq_py`` loads none of this. Must not know frames,
sockets or how a send is repeated. Read on: ``producer.py``, ``consumer.py``, ``lite_pull.py``,
``admin.py``.

>>> import asyncio
>>> from rocketmq_py import Message, aio
>>> async def order() -> None:
...     async with aio.Producer("shop", namesrv_addr="127.0.0.1:9876") as producer:
...         await producer.send(Message("Orders", b"paid"))
"""

from rocketmq_py.aio.admin import AdminClient
from rocketmq_py.aio.cancellation import SendCancelledError, cancelled_send
from rocketmq_py.aio.checks import TransactionCheck
from rocketmq_py.aio.consumer import Consumer, Orderly
from rocketmq_py.aio.delivery import Delivery
from rocketmq_py.aio.lite_pull import LitePullConsumer
from rocketmq_py.aio.producer import Producer
from rocketmq_py.aio.receiving import Listener
from rocketmq_py.aio.transaction import Transaction
from rocketmq_py.producer.halves import BegunHalf

__all__ = [
    "AdminClient",
    "BegunHalf",
    "Consumer",
    "Delivery",
    "Listener",
    "LitePullConsumer",
    "Orderly",
    "Producer",
    "SendCancelledError",
    "Transaction",
    "TransactionCheck",
    "cancelled_send",
]
