"""What 4.9 and 5.x do differently in the requests of this room.

Limits and codes that users meet are in `embedded_broker/settings/profiles.py`; here are the small
habits of each generation that only a handler cares about, as data. A handler asks for a field,
never for a version.
"""

from typing import Final

from attrs import frozen

from embedded_broker.settings.profiles import Profile
from rocketmq_py.protocol.codes import MQVersion


@frozen(kw_only=True)
class Differences:
    """The habits of one generation of brokers."""

    marks_stored_messages: bool
    """MSG_REGION and TRACE_ON are written into the message, UNIQ_KEY too when it is missing, and
    a POP_CK of the sender is dropped."""
    names_stored_messages: bool
    """A send answer carries the UNIQ_KEY as transactionId, for ordinary messages too, and the
    recall handle of a timer."""
    retries_at_limit: bool
    """A client's own send to %RETRY% goes to the dead letters above the maximum, not at it."""
    locked_group_gives_up: bool
    """The same send goes there at once while the group holds a queue lock: an orderly consumer
    gives up."""
    tells_broadcasting_groups: bool
    """40 is sent to broadcasting groups too."""
    checks_group_names: bool
    """Request 200 refuses a bad group name."""
    resets_at_pull: bool
    """An offset that is reset reaches a consumer as the answer to its next pull, not by 220."""


_V4: Final = Differences(
    marks_stored_messages=False,
    names_stored_messages=False,
    retries_at_limit=False,
    locked_group_gives_up=False,
    tells_broadcasting_groups=True,
    checks_group_names=False,
    resets_at_pull=False,
)

_V5: Final = Differences(
    marks_stored_messages=True,
    names_stored_messages=True,
    retries_at_limit=True,
    locked_group_gives_up=True,
    tells_broadcasting_groups=False,
    checks_group_names=True,
    resets_at_pull=True,
)


def differences(profile: Profile) -> Differences:
    """Give the habits of the generation that the profile belongs to."""
    return _V5 if profile.version >= MQVersion.V5_0_0 else _V4
