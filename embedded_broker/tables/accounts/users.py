"""The users and policies of ACL 2, and which policy entry decides about a resource.

Answers: which users there are, which policy entries each has, and which entry decides about a
resource. Names and words are those of RocketMQ 5.3's `auth` module; the most exact entry decides,
and of two that are as exact the one that denies. Must not know: requests, signatures. Read on:
``embedded_broker/core/access/users.py``, which judges by them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Any, Final, Literal, NamedTuple, Self

from attrs import define, evolve, field, frozen

from rocketmq_py.errors import ConfigError

RESOURCE_KINDS: Final = ("Cluster", "Namespace", "Topic", "Group")
ACTIONS: Final = ("All", "Pub", "Sub", "Create", "Update", "Delete", "Get", "List")
ALL: Final = "All"
SUBJECT_PREFIX: Final = "User:"
Decision = Literal["Allow", "Deny"]
PolicyType = Literal["Custom", "Default"]
Network = IPv4Network | IPv6Network


def word_of(given: object, words: Iterable[str]) -> str | None:
    """Find a word of the original in any case; None when it is none."""
    wanted = str(given).lower()
    return next((word for word in words if word.lower() == wanted), None)


@frozen(kw_only=True)
class AuthUser:
    """A user: who signs with ``username`` and ``password``. A ``superuser`` may do everything."""

    username: str
    password: str = field(repr=False)
    superuser: bool = False
    enabled: bool = True

    def to_document(self) -> dict[str, str]:
        """Give the user as requests and files have it, the password included."""
        return {
            "username": self.username,
            "password": self.password,
            "userType": "Super" if self.superuser else "Normal",
            "userStatus": "enable" if self.enabled else "disable",
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """Read a stored user."""
        return cls(
            username=str(document["username"]),
            password=str(document["password"]),
            superuser=document.get("userType") == "Super",
            enabled=document.get("userStatus") != "disable",
        )


class ResourcePattern(NamedTuple):
    """What an entry is about: `Topic:orders`, `Topic:orders*`, `Topic:*`, or `*` for everything."""

    kind: str
    name: str
    is_prefix: bool

    @classmethod
    def parse(cls, key: str) -> "ResourcePattern | None":
        """Read a resource key; None for what is none."""
        if key.strip() == "*":
            return cls("*", "", is_prefix=True)
        kind, _, name = key.strip().partition(":")
        found = word_of(kind, RESOURCE_KINDS)
        if found is None or not name:
            return None
        return cls(found, name.partition("*")[0], name.endswith("*"))

    def __str__(self) -> str:
        if self.kind == "*":
            return "*"
        return f"{self.kind}:{self.name}{'*' if self.is_prefix else ''}"

    def matches(self, kind: str, name: str) -> bool:
        """Say whether a resource is meant."""
        if self.kind == "*":
            return True
        if kind != self.kind:
            return False
        return name.startswith(self.name) if self.is_prefix else name == self.name

    @property
    def exactness(self) -> tuple[bool, bool, int]:
        """The greater, the more exact."""
        return self.kind != "*", not self.is_prefix, len(self.name)


def network_of(text: str) -> Network | None:
    """Read an address or a CIDR; None for what is none."""
    try:
        return ip_network(text.strip(), strict=False)
    except ValueError:
        return None


@frozen
class PolicyEntry:
    """What a user may do, or may not, with one resource or one kind of resources."""

    resource: ResourcePattern
    actions: tuple[str, ...]
    source_ips: tuple[str, ...]
    decision: Decision
    _networks: tuple[Network, ...] = field(init=False, eq=False, repr=False)

    @_networks.default
    def _read_networks(self) -> tuple[Network, ...]:
        found = map(network_of, self.source_ips)
        return tuple(network for network in found if network is not None)

    def allows_action(self, actions: Iterable[str]) -> bool:
        """Say whether it is about one of these actions."""
        return ALL in self.actions or any(action in self.actions for action in actions)

    def is_from(self, host: str) -> bool:
        """Say whether it is about requests from this host."""
        if not self.source_ips:
            return True
        try:
            address = ip_address(host.partition("%")[0])
        except ValueError:
            return False
        address = getattr(address, "ipv4_mapped", None) or address
        return any(address in network for network in self._networks)

    def to_document(self) -> dict[str, Any]:
        """Give the entry as requests and files have it."""
        document: dict[str, Any] = {
            "resource": str(self.resource),
            "actions": list(self.actions),
            "decision": self.decision,
        }
        return document | {"sourceIps": list(self.source_ips)} if self.source_ips else document


Policies = dict[PolicyType, tuple[PolicyEntry, ...]]
"""The entries of a user, by the type of policy that they stand in."""


@frozen(kw_only=True)
class AuthPolicy:
    """One thing that a user may do, or may not: ``actions`` with ``resources``.

    Resources are ``"Topic:orders"``, ``"Topic:orders*"``, ``"Group:*"``, ``"Cluster:name"`` or
    ``"*"``. Actions are ``Pub``, ``Sub``, ``Create``, ``Update``, ``Delete``, ``Get``, ``List`` and
    ``All``. With ``source_ips``, addresses or CIDRs, it is about requests from there only.
    """

    username: str
    resources: Sequence[str]
    actions: Sequence[str]
    decision: Decision = "Allow"
    source_ips: Sequence[str] = ()

    def entries(self) -> tuple[PolicyEntry, ...]:
        """Give an entry for each resource; raises ``ConfigError`` for a word that is none."""
        if self.decision not in {"Allow", "Deny"}:
            raise ConfigError("decision", self.decision, "one of Allow, Deny")
        actions = []
        for action in self.actions:
            known = word_of(action, ACTIONS)
            if known is None:
                raise ConfigError("actions", action, "one of " + ", ".join(ACTIONS))
            actions.append(known)
        for address in self.source_ips:
            if network_of(address) is None:
                raise ConfigError("source_ips", address, "an address, or a network as 10.0.0.0/8")
        found = []
        for key in self.resources:
            resource = ResourcePattern.parse(key)
            if resource is None:
                raise ConfigError("resources", key, "such as Topic:orders, Topic:o*, Group:* or *")
            source_ips = tuple(self.source_ips)
            found.append(PolicyEntry(resource, tuple(actions), source_ips, self.decision))
        return tuple(found)


def _all_users(given: Iterable[AuthUser]) -> tuple[AuthUser, ...]:
    return tuple(given)


def _all_policies(given: Iterable[AuthPolicy]) -> tuple[AuthPolicy, ...]:
    return tuple(given)


@frozen(kw_only=True)
class UserAcl:
    """Access control as RocketMQ 5.3 has it: users, and policies about what they may do.

    Give it to ``EmbeddedBroker(acl=...)``. Users and policies that the broker's store has already
    stay as they are there.
    """

    users: tuple[AuthUser, ...] = field(default=(), converter=_all_users)
    policies: tuple[AuthPolicy, ...] = field(default=(), converter=_all_policies)

    def __attrs_post_init__(self) -> None:
        names = {user.username for user in self.users}
        for policy in self.policies:
            policy.entries()
            if policy.username not in names:
                raise ConfigError("policies", policy.username, "the name of one of its users")


@define(eq=False)
class UserTable:
    """Users by name, and their policies. Every call is made under the door."""

    _users: dict[str, AuthUser] = field(factory=dict, init=False)
    _policies: dict[str, Policies] = field(factory=dict, init=False)

    def __len__(self) -> int:
        return len(self._users)

    def __iter__(self) -> Iterator[AuthUser]:
        return iter(self._users.values())

    def get(self, username: str) -> AuthUser | None:
        """Give a user."""
        return self._users.get(username)

    def put(self, user: AuthUser) -> None:
        """Add a user, or replace the one of that name."""
        self._users[user.username] = user

    def remove(self, username: str) -> None:
        """Remove a user with all policies."""
        self._users.pop(username, None)
        self._policies.pop(username, None)

    def policies(self, username: str) -> Policies | None:
        """Give the policies of a user, None when there are none."""
        return self._policies.get(username)

    def all_policies(self) -> list[tuple[str, Policies]]:
        """Give who has policies, and which."""
        return list(self._policies.items())

    def add_entries(self, username: str, kind: PolicyType, entries: Iterable[PolicyEntry]) -> None:
        """Add entries to a policy; one about the same resource takes the place of the old one."""
        policies = self._policies.get(username, {})
        merged = {one.resource: one for one in policies.get(kind, ())}
        merged.update({one.resource: one for one in entries})
        self._policies[username] = {**policies, kind: tuple(merged.values())}

    def remove_entries(
        self, username: str, kind: PolicyType, resource: ResourcePattern | None
    ) -> None:
        """Remove the entry about a resource, or all policies of the user."""
        policies = dict(self._policies.get(username, {}))
        if resource is not None:
            left = tuple(one for one in policies.get(kind, ()) if one.resource != resource)
            policies[kind] = left
            if not left:
                del policies[kind]
        if resource is None or not policies:
            self._policies.pop(username, None)
        else:
            self._policies[username] = policies

    def decision(
        self, username: str, kind: str, name: str, actions: Iterable[str], host: str
    ) -> Decision | None:
        """Give what the most exact entry says about a resource; custom policies come first."""
        policies = self._policies.get(username, {})
        for which in ("Custom", "Default"):
            entries = [
                one
                for one in policies.get(which, ())
                if one.resource.matches(kind, name)
                and one.allows_action(actions)
                and one.is_from(host)
            ]
            if entries:
                best = max(entries, key=lambda one: (one.resource.exactness, one.decision))
                return best.decision
        return None

    def may_something(self, username: str) -> bool:
        """Say whether a user has any right at all."""
        policies = self._policies.get(username, {})
        return any(one.decision == "Allow" for entries in policies.values() for one in entries)

    def begin_with(self, acl: UserAcl) -> bool:
        """Add the users that are not there yet, with their policies; says whether there were any.

        >>> table = UserTable()
        >>> table.begin_with(UserAcl(users=[AuthUser(username="alice", password="secret")]))
        True
        """
        new = [user for user in acl.users if user.username not in self._users]
        for user in new:
            self.put(user)
            for policy in acl.policies:
                if policy.username == user.username:
                    self.add_entries(user.username, "Custom", policy.entries())
        return bool(new)

    # -- the file -----------------------------------------------------------------------------

    def to_document(self) -> dict[str, Any]:
        """Give what the file holds, passwords included."""
        return {
            "users": {user.username: user.to_document() for user in self},
            "acls": {name: acl_document(name, one) for name, one in self._policies.items()},
        }

    def load_document(self, stored: Mapping[str, Any]) -> None:
        """Take over a stored object."""
        for document in (stored.get("users") or {}).values():
            self.put(AuthUser.from_document(document))
        for name, document in (stored.get("acls") or {}).items():
            for policy in document.get("policies") or ():
                for one in policy.get("entries") or ():
                    entry = AuthPolicy(
                        username=name,
                        resources=[one["resource"]],
                        actions=one["actions"],
                        decision=one["decision"],
                        source_ips=one.get("sourceIps") or (),
                    )
                    self.add_entries(name, policy["policyType"], entry.entries())


def acl_document(username: str, policies: Policies) -> dict[str, Any]:
    """Give the policies of a user as requests and files have them."""
    return {
        "subject": SUBJECT_PREFIX + username,
        "policies": [
            {"policyType": kind, "entries": [one.to_document() for one in entries]}
            for kind, entries in policies.items()
        ],
    }


def changed(user: AuthUser, **changes: Any) -> AuthUser:  # Any: of the fields that are given
    """Give a user with other values where something is given."""
    return evolve(user, **{name: value for name, value in changes.items() if value is not None})
