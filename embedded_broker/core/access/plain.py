"""What ACL 1 lets pass: white lists, signature and permissions of plain accounts, in this order.

Answers: which requests an account may make, in the words and with the order of checks of the
original's `PlainPermissionManager`. It judges every request by itself. Where the original looks
only at the account, this looks for a right, too: what changes something needs an admin, and what
names no topic or group needs some right. Must not know: files, codes, wires. Read on:
``embedded_broker/tables/accounts/plain.py``.
"""

from collections.abc import Sequence
from typing import Final

from attrs import define

from embedded_broker.core.access.retry_owners import RetryOwners
from embedded_broker.core.guards import Action, Asked, Resource, ResourceKind
from embedded_broker.core.refusals import Reason, Refused
from embedded_broker.tables.accounts.plain import Owned, Permission, PlainAccounts
from rocketmq_py.protocol.names import TRACE_TOPIC

_EXCEPTION: Final = "org.apache.rocketmq.acl.common.AclException: "
"""What every refusal begins with; clients look for it."""
# Members looked up in their class, and sums of them, cost more than the rest of a check.
_PUB, _SUB = Action.PUB, Action.SUB
_CLUSTER, _GROUP = ResourceKind.CLUSTER, ResourceKind.GROUP
_CHANGES: Final = (Action.CREATE, Action.UPDATE, Action.DELETE)
_MAY_PUB: Final = int(Permission.PUB)
_MAY_SUB: Final = int(Permission.SUB)
_MAY_BOTH: Final = _MAY_PUB | _MAY_SUB
_TRACE: Final = Resource(ResourceKind.TOPIC, TRACE_TOPIC)


@define(eq=False)
class PlainAccess:
    """The guard of ACL 1; ``aclEnable``."""

    _accounts: PlainAccounts
    _retry_owners: RetryOwners

    def check(self, asked: Asked) -> Refused | None:
        """Refuse what the sender may not do."""
        host = asked.peer.remote[0]
        if self._accounts.is_white(host):
            return None
        key = asked.claim.account
        if key is None:
            return _refused("No accessKey is configured")
        owned = self._accounts.find(key)
        if owned is None:
            return _refused(f"No acl config for {key}")
        if owned.white.matches(host):
            return None
        if not asked.claim.is_signed_with(owned.account.secret_key):
            return _refused(f"Check signature failed for accessKey={key}")
        if asked.action is _PUB and _TRACE in asked.resources:
            return None
        return _judge(asked, self._retry_owners.resolved(asked.resources), owned)


def _judge(asked: Asked, resources: Sequence[Resource], owned: Owned) -> Refused | None:
    action, account = asked.action, owned.account
    changes = action in _CHANGES
    if account.admin:
        if changes or not owned.has_own:
            return None
    elif changes or any(one.kind is _CLUSTER for one in resources):
        return _refused(
            f"Need admin permission for request code={asked.claim.call}, "
            f"but accessKey={account.access_key} is not"
        )
    if not resources and not owned.may_something:
        return _refused("No permission")
    needed = _MAY_PUB if action is _PUB else _MAY_SUB if action is _SUB else _MAY_BOTH
    for resource in resources:
        if not _permission(owned, resource) & needed:
            kind = "group" if resource.kind is _GROUP else "topic"
            return _refused(f"No default permission for {kind}:{resource.name}")
    return None


def _permission(owned: Owned, resource: Resource) -> int:
    kind, name = resource
    if kind is _CLUSTER:
        return _MAY_BOTH  # of an admin
    if kind is _GROUP:
        return owned.groups.get(name, owned.default_group)
    return owned.topics.get(name, owned.default_topic)


def _refused(text: str) -> Refused:
    return Refused(Reason.FAILED, _EXCEPTION + text)
