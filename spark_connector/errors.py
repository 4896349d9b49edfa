"""Which errors the connector raises, and what each asks the reader of the message to do.

All are `RocketMQError`, so they survive pickling between Spark's processes, and their texts hold
neither bodies nor credentials. Must not know Spark.
"""

from rocketmq_py.errors import RocketMQError

GO_ON = "set failOnDataLoss=false to go on with what there is"
"""How the text of a `RocketMQDataLossError` ends."""


class OptionError(RocketMQError, ValueError):
    """An option, or the way options are put together, is wrong; nothing was connected to."""


class SchemaError(RocketMQError, ValueError):
    """A column is unknown, missing, or of a type that cannot be used."""


class InvalidRowError(RocketMQError, ValueError):
    """A row cannot become a message; `row` is its number in its Arrow batch, from 0."""

    def __init__(self, text: str, *, row: int = -1) -> None:
        super().__init__(text)
        self.row = row


class RocketMQDataLossError(RocketMQError):
    """Messages that a read was meant to give are not there any more.

    Set ``failOnDataLoss`` to false to go on with what there is.
    """


class UnknownLagError(RocketMQError, LookupError):
    """How far a query is behind cannot be told yet: nobody has told the ends of its queues."""


class VersionError(RocketMQError):
    """Driver and worker run different versions of Python or of this package."""


class WeaklyStoredError(RocketMQError):
    """A broker stored messages, but not as safely as it is set up to; they stay stored.

    Sending them again would store them twice: repair the broker, or take such answers by
    ``acceptStatus=stored``.
    """
