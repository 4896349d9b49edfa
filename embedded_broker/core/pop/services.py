"""POP services of a broker: what pops, acknowledges, renews and lets messages come back."""

from attrs import frozen

from embedded_broker.core.pop.acks import Acks
from embedded_broker.core.pop.peeks import Peeks
from embedded_broker.core.pop.renewals import Renewals
from embedded_broker.core.pop.revive import ReviveService
from embedded_broker.core.pop.service import PopService


@frozen(kw_only=True)
class PopServices:
    """The services of one broker behind its POP requests. Used under the door."""

    service: PopService
    peeks: Peeks
    acks: Acks
    renewals: Renewals
    revive: ReviveService
