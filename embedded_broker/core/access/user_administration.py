"""How users and policies of ACL 2 are changed.

Answers: what is refused, and in which words: those of the original's AdminBrokerProcessor and
metadata managers. Must not know: requests, files. Read on:
``embedded_broker/tables/accounts/users.py``.
"""

from collections.abc import Mapping
from typing import Any, Final, NoReturn, cast

from attrs import define

from embedded_broker.core.refusals import Reason, Refused
from embedded_broker.tables.accounts.users import (
    ACTIONS,
    SUBJECT_PREFIX,
    AuthUser,
    Decision,
    Policies,
    PolicyEntry,
    PolicyType,
    ResourcePattern,
    UserTable,
    acl_document,
    changed,
    network_of,
    word_of,
)

_TYPES: Final = ("Super", "Normal")
_STATES: Final = ("enable", "disable")
_POLICIES: Final = ("Custom", "Default")
_EXCEPTION: Final = "org.apache.rocketmq.auth.authorization.exception.AuthorizationException: "
Given = Mapping[str, Any]
"""A document of a request: anything may stand in it."""


def _refuse(remark: str) -> NoReturn:
    raise Refused(Reason.NO_PERMISSION, remark)


@define(eq=False)
class UserAdministration:
    """Users and policies of one broker. ``by`` is the user who asks, None if nobody signed."""

    _users: UserTable

    # -- users --------------------------------------------------------------------------------

    def create_user(self, username: str, given: Given, by: str | None) -> None:
        """Add a user; only a super user creates another one."""
        self._check_name(username)
        superuser, enabled = _type_of(given), _state_of(given)
        if superuser and not self._is_super(by):
            raise Refused(Reason.FAILED, "The super user can only be create by super user")
        password = str(given.get("password") or "")
        if not password.strip():
            _refuse("password can not be blank")
        if self._users.get(username) is not None:
            _refuse("The user is existed")
        user = AuthUser(username=username, password=password)
        self._users.put(changed(user, superuser=superuser, enabled=enabled))

    def update_user(self, username: str, given: Given, by: str | None) -> None:
        """Change what is given of a user."""
        self._check_name(username)
        superuser, told = _type_of(given), "The super user can only be update by super user"
        if superuser and not self._is_super(by):
            raise Refused(Reason.FAILED, told)
        old = self._users.get(username)
        if old is None:
            _refuse("The user is not exist")
        if old.superuser and not self._is_super(by):
            _refuse(told)
        password = str(given.get("password") or "").strip() or None
        state = _state_of(given)
        self._users.put(changed(old, password=password, superuser=superuser, enabled=state))

    def delete_user(self, username: str, by: str | None) -> None:
        """Remove a user with all policies; one that is not there is gone already."""
        if not username.strip():
            _refuse("username can not be blank")
        user = self._users.get(username)
        if user is None:
            return
        if user.superuser and not self._is_super(by):
            _refuse("The super user can only be update by super user")
        self._users.remove(username)

    def get_user(self, username: str) -> dict[str, str] | None:
        """Give a user with the password, None when there is none."""
        self._check_name(username)
        user = self._users.get(username)
        return None if user is None else user.to_document()

    def list_users(self, text: str | None) -> list[dict[str, str]]:
        """Give the users whose name contains a text."""
        found = sorted(self._users, key=lambda user: user.username)
        return [user.to_document() for user in found if not text or text in user.username]

    def _check_name(self, username: str) -> None:
        if not username.strip():
            raise Refused(Reason.INVALID_PARAMETER, "The username is blank")

    def _is_super(self, by: str | None) -> bool:
        """Whether who asks may change super users: also somebody of whom no name is asked for."""
        if not by:
            return True
        user = self._users.get(by)
        if user is None:
            _refuse(f"User:{by} is not found")
        return user.superuser

    # -- policies -------------------------------------------------------------------------------

    def put_acl(self, subject: str, given: Given) -> None:
        """Add policy entries to a user, or replace those about the same resources."""
        policies = given.get("policies")
        if not isinstance(policies, list) or not policies:
            raise Refused(Reason.FAILED, f"{_EXCEPTION}The body of acl is null")
        username = self._subject(str(given.get("subject") or subject))
        read = [policy for one in policies if (policy := _read_policy(one)) is not None]
        if not read:
            _refuse("The policies is empty.")
        if self._users.get(username) is None:
            _refuse(f"The subject of {SUBJECT_PREFIX}{username} is not exist.")
        for kind, entries in read:
            self._users.add_entries(username, kind, entries)

    def delete_acl(self, subject: str, kind: str | None, resource: str | None) -> None:
        """Remove the entry about a resource, or all policies of a user."""
        username = self._subject(subject)
        if self._users.get(username) is None:
            _refuse("The subject is not exist.")
        if self._users.policies(username) is None:
            _refuse("The acl is not exist.")
        pattern = ResourcePattern.parse(resource) if resource else None
        if resource and pattern is None:
            _refuse("The resource type is null.")
        which = cast("PolicyType", word_of(kind, _POLICIES) or "Custom")
        self._users.remove_entries(username, which, pattern)

    def get_acl(self, subject: str) -> dict[str, Any] | None:
        """Give the policies of a user, None when there are none."""
        username = self._subject(subject)
        if self._users.get(username) is None:
            _refuse("The subject is not exist.")
        policies = self._users.policies(username)
        return None if policies is None else acl_document(username, policies)

    def list_acls(self, subject_text: str | None, resource_text: str | None) -> list[Given]:
        """Give the policies of whose names contain a text, about resources that contain one."""
        found: list[Given] = []
        for username, policies in sorted(self._users.all_policies()):
            subject = SUBJECT_PREFIX + username
            if subject_text and subject_text not in subject:
                continue
            text = None if resource_text and resource_text in subject else resource_text
            shown = _about(policies, text) if text else policies
            if shown:
                found.append(acl_document(username, shown))
        return found

    def _subject(self, subject: str) -> str:
        kind, _, name = subject.partition(":")
        if word_of(kind, ("User",)) is None or not name:
            _refuse("The subject type is null.")
        return name


def _read_policy(given: Any) -> tuple[PolicyType, list[PolicyEntry]] | None:
    """Read a policy; one without entries is none."""
    entries = given.get("entries") if isinstance(given, dict) else None
    if not isinstance(entries, list) or not entries:
        return None
    kind = cast("PolicyType", word_of(given.get("policyType"), _POLICIES) or "Custom")
    return kind, [_read_entry(one) for one in entries]


def _about(policies: Policies, text: str) -> Policies:
    """Give the entries about resources whose names contain a text."""
    found = {
        kind: tuple(one for one in entries if text in str(one.resource))
        for kind, entries in policies.items()
    }
    return {kind: entries for kind, entries in found.items() if entries}


def _read_entry(given: Any) -> PolicyEntry:
    document = given if isinstance(given, dict) else {}
    resource = ResourcePattern.parse(str(document.get("resource") or ""))
    if resource is None:
        _refuse("The resource is null.")
    words = [word_of(one, (*ACTIONS, "Any")) for one in document.get("actions") or ()]
    if "Any" in words:
        _refuse("The actions can not be Any.")
    actions = tuple(word for word in words if word is not None)
    if not actions:
        _refuse("The actions is empty.")
    source_ips = tuple(str(one) for one in document.get("sourceIps") or ())
    for address in source_ips:
        if not address.strip():
            _refuse("The source ip is empty.")
        if network_of(address) is None:
            _refuse("The source ip is invalid.")
    decision = word_of(document.get("decision"), ("Allow", "Deny"))
    if decision is None:
        _refuse("The decision is null or illegal.")
    return PolicyEntry(resource, actions, source_ips, cast("Decision", decision))


def _type_of(given: Given) -> bool | None:
    kind = word_of(given.get("userType"), _TYPES)
    return None if kind is None else kind == "Super"


def _state_of(given: Given) -> bool | None:
    state = word_of(given.get("userStatus"), _STATES)
    return None if state is None else state == "enable"
