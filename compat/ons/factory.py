"""Where ONS programs get their clients from.

Names as in ``com.aliyun.openservices.ons.api.ONSFactory``. Must not know what clients do.
"""

from collections.abc import Mapping

from compat.ons.batch import BatchConsumer
from compat.ons.consumer import Consumer
from compat.ons.order import OrderConsumer, OrderProducer
from compat.ons.producer import Producer
from compat.ons.pull import PullConsumer
from compat.ons.transaction import CheckerLike, TransactionProducer


class ONSFactory:
    """Makes clients of properties (`Properties` or any mapping); they are not started yet."""

    @staticmethod
    def create_producer(properties: Mapping[str, object]) -> Producer:
        """Make a producer; without GROUP_ID it joins ONS's default producer group."""
        return Producer(properties)

    @staticmethod
    def create_order_producer(properties: Mapping[str, object]) -> OrderProducer:
        """Make a producer of messages in order."""
        return OrderProducer(properties)

    @staticmethod
    def create_transaction_producer(
        properties: Mapping[str, object], checker: CheckerLike | None
    ) -> TransactionProducer:
        """Make a producer of transactions; without a checker its start raises ValueError."""
        return TransactionProducer(properties, checker)

    @staticmethod
    def create_consumer(properties: Mapping[str, object]) -> Consumer:
        """Make a consumer; ONSClientException without GROUP_ID."""
        return Consumer(properties)

    @staticmethod
    def create_batch_consumer(properties: Mapping[str, object]) -> BatchConsumer:
        """Make a consumer of batches; ONSClientException without GROUP_ID."""
        return BatchConsumer(properties)

    @staticmethod
    def create_ordered_consumer(properties: Mapping[str, object]) -> OrderConsumer:
        """Make a consumer of messages in order; ONSClientException without GROUP_ID."""
        return OrderConsumer(properties)

    @staticmethod
    def create_pull_consumer(properties: Mapping[str, object]) -> PullConsumer:
        """Make a consumer that is asked for messages; ONSClientException without GROUP_ID."""
        return PullConsumer(properties)

    # --- Java's spelling ----------------------------------------------------------------------

    @staticmethod
    def createProducer(properties: Mapping[str, object]) -> Producer:
        """Java's spelling of `create_producer`."""
        return ONSFactory.create_producer(properties)

    @staticmethod
    def createOrderProducer(properties: Mapping[str, object]) -> OrderProducer:
        """Java's spelling of `create_order_producer`."""
        return ONSFactory.create_order_producer(properties)

    @staticmethod
    def createTransactionProducer(
        properties: Mapping[str, object], checker: CheckerLike | None
    ) -> TransactionProducer:
        """Java's spelling of `create_transaction_producer`."""
        return ONSFactory.create_transaction_producer(properties, checker)

    @staticmethod
    def createConsumer(properties: Mapping[str, object]) -> Consumer:
        """Java's spelling of `create_consumer`."""
        return ONSFactory.create_consumer(properties)

    @staticmethod
    def createBatchConsumer(properties: Mapping[str, object]) -> BatchConsumer:
        """Java's spelling of `create_batch_consumer`."""
        return ONSFactory.create_batch_consumer(properties)

    @staticmethod
    def createOrderedConsumer(properties: Mapping[str, object]) -> OrderConsumer:
        """Java's spelling of `create_ordered_consumer`."""
        return ONSFactory.create_ordered_consumer(properties)

    @staticmethod
    def createPullConsumer(properties: Mapping[str, object]) -> PullConsumer:
        """Java's spelling of `create_pull_consumer`."""
        return ONSFactory.create_pull_consumer(properties)
