"""What ACL 1 lets pass: signatures, white lists and permissions of plain accounts.

Answers: which requests an account may make, in the words and with the order of checks of the
original's `PlainPermissionManager`. It judges every request by itself. Where the original looks
only at the account, this looks for a right, too: what changes something needs an admin, and what
names no topic or group needs some right. Must not know: files, codes, wires. Read on:
``embedded_broker/tables/accounts/plain.py``.
"""

from typing import Final

from attrs import define

from embedded_broker.core.guards import Action, Asked, Resource, ResourceKind
from embedded_broker.core.refusals import Reason, Refused
from embedded_broker.tables.accounts.plain import Owned, Permission, PlainAccounts
from rocketmq_py.protocol.names import TRACE_TOPIC

_EXCEPTION: Final = "org.apache.rocketmq.acl.common.AclException: "
"""What every refusal begins with; clients look for it."""
_CHANGES: Final = frozenset({Action.CREATE, Action.UPDATE, Action.DELETE})
_NEEDED: Final = {Action.PUB: Permission.PUB, Action.SUB: Permission.SUB}
_TRACE: Final = Resource(ResourceKind.TOPIC, TRACE_TOPIC)


@define(eq=False)
class PlainAccess:
    """The guard of ACL 1; ``aclEnable``."""

    _accounts: PlainAccounts

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
        if asked.action is Action.PUB and _TRACE in asked.resources:
            return None
        return _judge(asked, owned)


def _judge(asked: Asked, owned: Owned) -> Refused | None:
    is_admin = owned.account.admin
    if not is_admin and (
        asked.action in _CHANGES or any(one.kind is ResourceKind.CLUSTER for one in asked.resources)
    ):
        key, call = owned.account.access_key, asked.claim.call
        return _refused(
            f"Need admin permission for request code={call}, but accessKey={key} is not"
        )
    if is_admin and (asked.action in _CHANGES or not owned.has_own):
        return None
    if not asked.resources and not owned.may_something:
        return _refused("No permission")
    needed = _NEEDED.get(asked.action, Permission.PUB | Permission.SUB)
    for resource in asked.resources:
        if not _permission(owned, resource) & needed:
            kind = "group" if resource.kind is ResourceKind.GROUP else "topic"
            return _refused(f"No default permission for {kind}:{resource.name}")
    return None


def _permission(owned: Owned, resource: Resource) -> Permission:
    if resource.kind is ResourceKind.CLUSTER:
        return Permission.PUB | Permission.SUB  # of an admin
    if resource.kind is ResourceKind.GROUP:
        return owned.groups.get(resource.name, owned.default_group)
    return owned.topics.get(resource.name, owned.default_topic)


def _refused(text: str) -> Refused:
    return Refused(Reason.FAILED, _EXCEPTION + text)
