"""The asyncio face of administration: the calls of `rocketmq_py.admin.AdminClient`, awaited.

Must not know acts. Read on: ``administration.py`` for how they ask, and
``../administration/calls.py`` for the calls.
"""

from attrs import define, setters

from rocketmq_py.administration.calls import AdminCalls
from rocketmq_py.aio.administration import AwaitedAdmin
from rocketmq_py.config import explained


@explained
@define(kw_only=True, eq=False, repr=False, slots=False, on_setattr=setters.NO_OP)
class AdminClient(AwaitedAdmin, AdminCalls):
    """Asks and changes topics, groups, offsets, messages, brokers and users, from one event loop.

    Calls, settings and errors are those of `rocketmq_py.admin.AdminClient`; each call is awaited
    and never blocks the loop. A client belongs to the loop that uses it first; any other gets
    `IllegalStateError`. A task that is cancelled asks nothing more; what servers were asked before
    may be done.

    ::

        async with aio.AdminClient(namesrv_addr="127.0.0.1:9876") as admin:
            await admin.ensure_topic("Orders", queues=8)
    """
