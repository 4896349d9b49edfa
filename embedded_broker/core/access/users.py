"""What ACL 2 lets pass: users who sign, and policies about what they may do.

Answers: who a request comes from (authentication) and whether that user may do it (authorisation),
in the words of the original's `auth` module; each can be on without the other. It judges every
request by itself. Must not know: files, wires. Read on:
``embedded_broker/tables/accounts/users.py``.
"""

from typing import Final

from attrs import define, field

from embedded_broker.core.access.retry_owners import RetryOwners
from embedded_broker.core.guards import Asked, ResourceKind
from embedded_broker.core.refusals import Reason, Refused
from embedded_broker.settings.config import BrokerConfig
from embedded_broker.tables.accounts.users import AuthUser, UserTable

_NOBODY: Final = "Authorization failed. Please verify your access rights and try again."


@define(eq=False)
class UserAccess:
    """The guard of ACL 2; ``authenticationEnabled`` and ``authorizationEnabled``."""

    _config: BrokerConfig
    _users: UserTable
    _cluster_name: str
    _retry_owners: RetryOwners
    _signs: bool = field(init=False)
    _judges: bool = field(init=False)
    _unsigned: frozenset[str] = field(init=False)
    _unjudged: frozenset[str] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._signs = self._config.flag("authenticationEnabled")
        self._judges = self._config.flag("authorizationEnabled")
        self._unsigned = self._codes("authenticationWhitelist")
        self._unjudged = self._codes("authorizationWhitelist")

    @classmethod
    def is_on(cls, config: BrokerConfig) -> bool:
        """Say whether there is anything to guard."""
        return config.flag("authenticationEnabled") or config.flag("authorizationEnabled")

    def _codes(self, name: str) -> frozenset[str]:
        return frozenset(one.strip() for one in self._config.text(name).split(",") if one.strip())

    def check(self, asked: Asked) -> Refused | None:
        """Refuse what nobody has signed, and what its user may not do."""
        call = asked.claim.call
        told = None
        if self._signs and call not in self._unsigned:
            told = self._authenticate(asked)
        if told is None and self._judges:
            told = None if call in self._unjudged else self._authorize(asked)
        return None if told is None else Refused(Reason.NO_PERMISSION, told)

    def _authenticate(self, asked: Asked) -> str | None:
        """Say what is wrong with the signature."""
        name = asked.claim.account
        if not name:
            return "username cannot be null."
        user = self._users.get(name)
        if user is None:
            return f"User:{name} is not found."
        if not user.enabled:
            return f"User:{name} is disabled."
        if not asked.claim.is_signed_with(user.password):
            return "check signature failed."
        return None

    def _authorize(self, asked: Asked) -> str | None:
        """Say what the user may not do."""
        name = asked.claim.account
        if not name:
            return _NOBODY
        user = self._users.get(name)
        if user is None:
            return f"User:{name} not found."
        if not user.enabled:
            return f"User:{name} is disabled."
        return None if user.superuser else self._judge(asked, user)

    def _judge(self, asked: Asked, user: AuthUser) -> str | None:
        name, host = user.username, asked.peer.remote[0]
        who = f"User:{name} has no permission to access"
        resources = self._retry_owners.resolved(asked.resources)
        if not resources and not self._users.may_something(name):
            return f"{who} anything from {host}, no matched policies."
        actions = [asked.action.value, *(action.value for action in asked.also)]
        for resource in resources:
            kind = resource.kind.value
            about = self._cluster_name if resource.kind is ResourceKind.CLUSTER else resource.name
            decision = self._users.decision(name, kind, about, actions, host)
            if decision != "Allow":
                why = "no matched policies" if decision is None else "the decision is deny"
                return f"{who} {kind}:{about} from {host}, {why}."
        return None
