"""The accounts of ACL 1: what `plain_acl.yml` says, or what a test says in code.

Answers: which accounts there are, what each may do, and which addresses need none; when the file is
read again, and what is written to it. Must not know: requests, signatures, YAML. Names and rules
are those of the original's `PlainAccessConfig` and `PlainPermissionManager`. Read on:
``embedded_broker/core/access/plain.py``, which judges by them, and ``plain_file.py``.
"""

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from enum import IntFlag
from pathlib import Path
from typing import Any, Final, Self

from attrs import define, evolve, field, frozen

from embedded_broker.tables.accounts.addresses import AddressPattern
from rocketmq_py.clock import Clock
from rocketmq_py.errors import ConfigError, how_to_install
from rocketmq_py.logs import get_logger

logger = get_logger(__name__)

KEY_LENGTH_MIN: Final = 7
WATCH_EVERY_MS: Final = 500
"""How often the file is looked at, as the original does."""
HOSTS_KEPT_MAX: Final = 4096
_WHITE: Final = "globalWhiteRemoteAddresses"


class Permission(IntFlag):
    """What an account may do with a topic or as a group."""

    DENY = 0
    PUB = 1
    SUB = 2

    @classmethod
    def parse(cls, text: str | None) -> "Permission":
        """Read `PUB`, `SUB`, `PUB|SUB` or `SUB|PUB`; everything else is DENY."""
        return _PERMISSIONS.get((text or "").strip(), cls.DENY)


_PERMISSIONS: Final = {
    "DENY": Permission.DENY,
    "PUB": Permission.PUB,
    "SUB": Permission.SUB,
    "PUB|SUB": Permission.PUB | Permission.SUB,
    "SUB|PUB": Permission.PUB | Permission.SUB,
}


_SAID: Final = {
    **dict.fromkeys(("true", "yes", "on"), True),
    **dict.fromkeys(("false", "no", "off", ""), False),
}


def _check_key(_account: object, attribute: Any, value: str) -> None:  # Any: attrs' own
    if len(value) < KEY_LENGTH_MIN:
        raise ConfigError(attribute.name, "...", f"a text of at least {KEY_LENGTH_MIN} characters")


def _check_permission(_account: object, attribute: Any, value: str) -> None:
    if value not in _PERMISSIONS:
        raise ConfigError(attribute.name, value, "one of " + ", ".join(_PERMISSIONS))


def _check_permissions(_account: object, attribute: Any, value: Mapping[str, str]) -> None:
    for name, permission in value.items():
        if permission not in _PERMISSIONS:
            raise ConfigError(
                attribute.name, f"{name}={permission}", "one of " + ", ".join(_PERMISSIONS)
            )


@frozen(kw_only=True)
class PlainAccount:
    """One account: its keys, and what it may do; the names of `plain_acl.yml`.

    Permissions are ``DENY``, ``PUB``, ``SUB`` or ``PUB|SUB``. ``topic_perms`` and ``group_perms``
    win over the defaults. An ``admin`` may administer the broker, and may do everything with topics
    and groups unless it has permissions of its own. Requests from ``white_remote_address`` need no
    signature. Keys have seven characters at least.
    """

    access_key: str = field(validator=_check_key)
    secret_key: str = field(validator=_check_key, repr=False)
    white_remote_address: str = ""
    admin: bool = False
    default_topic_perm: str = field(default="DENY", validator=_check_permission)
    default_group_perm: str = field(default="DENY", validator=_check_permission)
    topic_perms: Mapping[str, str] = field(factory=dict, validator=_check_permissions)
    group_perms: Mapping[str, str] = field(factory=dict, validator=_check_permissions)

    @classmethod
    def from_document(cls, document: object) -> Self:
        """Read an entry of `accounts`; a permission that is none of the five is DENY."""
        if not isinstance(document, dict):
            raise ConfigError("accounts", "...", "a list of mappings with accessKey, secretKey")

        def text(name: str) -> str:
            value = document.get(name)
            if isinstance(value, list | dict):
                raise ConfigError(name, "...", "a text")
            return "" if value is None else str(value)

        return cls(
            access_key=text("accessKey"),
            secret_key=text("secretKey"),
            white_remote_address=text("whiteRemoteAddress"),
            admin=_is_admin(text("admin")),
            default_topic_perm=_known(text("defaultTopicPerm")),
            default_group_perm=_known(text("defaultGroupPerm")),
            topic_perms=_known_of(read_perms("topic", document.get("topicPerms"))),
            group_perms=_known_of(read_perms("group", document.get("groupPerms"))),
        )

    def to_document(self) -> dict[str, Any]:
        """Give the entry as the file holds it, the secret included."""
        return {
            "accessKey": self.access_key,
            "secretKey": self.secret_key,
            "whiteRemoteAddress": self.white_remote_address or None,
            "admin": self.admin,
            "defaultTopicPerm": self.default_topic_perm,
            "defaultGroupPerm": self.default_group_perm,
            "topicPerms": [f"{name}={perm}" for name, perm in self.topic_perms.items()],
            "groupPerms": [f"{name}={perm}" for name, perm in self.group_perms.items()],
        }


def _is_admin(text: str) -> bool:
    """Read what YAML 1.1, which the original's files are written in, has for yes and no."""
    said = _SAID.get(text.lower())
    if said is None:
        raise ConfigError("admin", text, "true or false")
    return said


def _list_of(name: str, given: object) -> list[Any]:
    """Give the entries that stand under a name; nothing is none."""
    if given in (None, ""):
        return []
    if not isinstance(given, list):
        raise ConfigError(name, "...", "a list")
    return given


def _known(permission: str) -> str:
    permission = permission.strip()
    return permission if permission in _PERMISSIONS else "DENY"


def _known_of(permissions: Mapping[str, str]) -> dict[str, str]:
    return {name: _known(text) for name, text in permissions.items()}


def read_perms(kind: str, given: object) -> dict[str, str]:
    """Read `topicA=PUB|SUB` entries, of topics or of groups."""
    found = {}
    for entry in _list_of(f"{kind}Perms", given):
        name, separator, permission = str(entry).partition("=")
        if not separator or not name.strip() or "=" in permission:
            raise ConfigError(f"{kind}Perms", entry, f"{kind}=permission, such as {kind}A=PUB|SUB")
        found[name.strip()] = permission.strip()
    return found


def _all_accounts(given: Iterable[PlainAccount]) -> tuple[PlainAccount, ...]:
    return tuple(given)


def _all_texts(given: Iterable[str]) -> tuple[str, ...]:
    return tuple(given)


@frozen(kw_only=True)
class PlainAcl:
    """Access control as RocketMQ 4.9 has it: accounts, and addresses that need none.

    Give it to ``EmbeddedBroker(acl=...)``, or the path of a `plain_acl.yml` (the extra ``acl``).
    """

    accounts: tuple[PlainAccount, ...] = field(default=(), converter=_all_accounts)
    global_white_remote_addresses: tuple[str, ...] = field(default=(), converter=_all_texts)

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Self:
        """Read a `plain_acl.yml`; raises ``ConfigError`` that names the file and what is wrong.

        So it does without PyYAML, the extra ``acl``.
        """
        return cls.from_document(_read_file(Path(path)))

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """Read what the file holds."""
        white = _list_of(_WHITE, document.get(_WHITE))
        if any(isinstance(one, list | dict) for one in white):
            raise ConfigError(_WHITE, "...", "a list of addresses")
        accounts = _list_of("accounts", document.get("accounts"))
        return cls(
            accounts=[PlainAccount.from_document(one) for one in accounts],
            global_white_remote_addresses=[str(one) for one in white],
        )


def _read_file(path: Path) -> dict[str, Any]:
    try:
        from embedded_broker.tables.accounts.plain_file import read_document
    except ModuleNotFoundError as error:
        if error.name != "yaml":
            raise
        wanted = f"a plain_acl.yml needs PyYAML: {how_to_install('acl')}"
        raise ConfigError("acl", str(path), wanted) from error
    return read_document(path)


@frozen
class Owned:
    """One account as requests are judged by it."""

    account: PlainAccount
    topics: Mapping[str, int]
    """Permissions as numbers: sums of members are slow, and each request asks for some."""
    groups: Mapping[str, int]
    default_topic: int
    default_group: int
    white: AddressPattern

    @classmethod
    def of(cls, account: PlainAccount) -> Self:
        """Make ready what every request asks for."""
        return cls(
            account,
            {name: int(Permission.parse(text)) for name, text in account.topic_perms.items()},
            {name: int(Permission.parse(text)) for name, text in account.group_perms.items()},
            int(Permission.parse(account.default_topic_perm)),
            int(Permission.parse(account.default_group_perm)),
            AddressPattern.parse(account.white_remote_address),
        )

    @property
    def has_own(self) -> bool:
        """Whether it has permissions of its own; an admin without may do everything."""
        return bool(self.topics or self.groups)

    @property
    def may_something(self) -> bool:
        """Whether it has any right at all."""
        rights = (self.default_topic, self.default_group, *self.topics.values())
        return self.account.admin or any(rights) or any(self.groups.values())


@define(eq=False)
class PlainAccounts:
    """The accounts that are in force; from a file they change with it.

    ``acl`` is replaced as a whole, never changed: requests may look while somebody reloads.
    """

    acl: PlainAcl
    path: Path | None = None
    _clock: Clock | None = None
    _owned: dict[str, Owned] = field(init=False)
    _white: tuple[AddressPattern, ...] = field(init=False)
    _hosts: dict[str, bool] = field(init=False)
    _seen: tuple[int, ...] = field(init=False, default=())
    counter: int = field(init=False, default=0)
    changed_ms: int = field(init=False, default=0)

    def __attrs_post_init__(self) -> None:
        self._seen = self._look()
        self._use(self.acl)

    @classmethod
    def of(cls, acl: "PlainAcl | str | os.PathLike[str]", clock: Clock | None = None) -> Self:
        """Take accounts from a file, or as they are; raises ``ConfigError``."""
        if isinstance(acl, PlainAcl):
            return cls(acl, None, clock)
        path = Path(acl)
        return cls(PlainAcl.from_file(path), path, clock)

    def find(self, access_key: str) -> Owned | None:
        """Give an account."""
        return self._owned.get(access_key)

    def is_white(self, host: str) -> bool:
        """Say whether requests of this host need no account."""
        hosts = self._hosts
        known = hosts.get(host)
        if known is None:
            if len(hosts) >= HOSTS_KEPT_MAX:
                hosts.clear()
            known = hosts[host] = any(pattern.matches(host) for pattern in self._white)
        return known

    # -- changes ------------------------------------------------------------------------------

    def put(self, account: PlainAccount) -> None:
        """Add an account, or replace the one with its key."""
        others = [one for one in self.acl.accounts if one.access_key != account.access_key]
        self._change(evolve(self.acl, accounts=[*others, account]))

    def remove(self, access_key: str) -> bool:
        """Remove an account; False when there is none."""
        others = [one for one in self.acl.accounts if one.access_key != access_key]
        if access_key not in self._owned:
            return False
        self._change(evolve(self.acl, accounts=others))
        return True

    def set_white(self, addresses: Iterable[str]) -> None:
        """Replace the addresses that need no account."""
        self._change(evolve(self.acl, global_white_remote_addresses=addresses))

    def watch(self) -> None:
        """Follow the file."""
        self.reload()

    def reload(self) -> bool:
        """Read the file again if it was changed. One that cannot be read changes nothing."""
        seen = self._look()
        if self.path is None or seen == self._seen or not seen:
            return False
        self._seen = seen
        try:
            self._use(PlainAcl.from_file(self.path))
        except ConfigError as error:
            logger.error("the accounts stay as they were: %s", error)  # noqa: TRY400
            return False
        logger.info("%s was read again: %d accounts", self.path, len(self._owned))
        return True

    def _change(self, acl: PlainAcl) -> None:
        before = self.acl, self.counter, self.changed_ms
        self._use(acl)
        self.counter += 1
        self.changed_ms = self._clock.now_ms if self._clock is not None else 0
        try:
            if self.path is not None:
                self._save(self.path)
        except (ConfigError, OSError):  # what a restart would not find is not in force now
            acl, self.counter, self.changed_ms = before
            self._use(acl)
            raise

    def _use(self, acl: PlainAcl) -> None:
        white = tuple(AddressPattern.parse(one) for one in acl.global_white_remote_addresses)
        owned: dict[str, Owned] = {}
        for account in acl.accounts:
            if account.access_key in owned:
                raise ConfigError("accessKey", account.access_key, "one account for each key")
            owned[account.access_key] = Owned.of(account)
        self._hosts: dict[str, bool] = {}
        self.acl, self._owned, self._white = acl, owned, white

    def _look(self) -> tuple[int, ...]:
        with suppress(OSError):
            if self.path is not None:
                found = self.path.stat()
                return found.st_mtime_ns, found.st_size, found.st_ino
        return ()

    def _save(self, path: Path) -> None:
        from embedded_broker.tables.accounts.plain_file import write_document

        document = {
            _WHITE: list(self.acl.global_white_remote_addresses),
            "accounts": [one.to_document() for one in self.acl.accounts],
            "dataVersion": [{"counter": self.counter, "timestamp": self.changed_ms}],
        }
        write_document(path, document)
        self._seen = self._look()
