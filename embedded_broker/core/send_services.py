"""Send services of a broker: messages are sent, sent back and recalled, transactions ended."""

from attrs import frozen

from embedded_broker.core.produce import Produce
from embedded_broker.core.recalls import Recalls
from embedded_broker.core.retries import Retries
from embedded_broker.core.transactions.ending import EndTransactions


@frozen(kw_only=True)
class SendServices:
    """The services of one broker behind its send requests. Used under the door."""

    produce: Produce
    retries: Retries
    endings: EndTransactions
    recalls: Recalls
