"""Where ONS programs get their clients from.

Names as in ``com.aliyun.openservices.ons.api.ONSFactory``. Must not know what clients do.
"""

from collections.abc import Mapping

from compat.ons.consumer import Consumer
from compat.ons.producer import Producer


class ONSFactory:
    """Makes clients of properties (`Properties` or any mapping); they are not started yet."""

    @staticmethod
    def create_producer(properties: Mapping[str, object]) -> Producer:
        """Make a producer; without GROUP_ID it joins ONS's default producer group."""
        return Producer(properties)

    @staticmethod
    def create_consumer(properties: Mapping[str, object]) -> Consumer:
        """Make a consumer; ONSClientException without GROUP_ID."""
        return Consumer(properties)

    @staticmethod
    def createProducer(properties: Mapping[str, object]) -> Producer:
        """Java's spelling of `create_producer`."""
        return ONSFactory.create_producer(properties)

    @staticmethod
    def createConsumer(properties: Mapping[str, object]) -> Consumer:
        """Java's spelling of `create_consumer`."""
        return ONSFactory.create_consumer(properties)
