"""Users and policies of ACL 2, which brokers have since 5.3: asked for, made, changed, removed.

Each broker has its own; an act asks and changes every master, or one. Passwords go to brokers and
are never shown. Must not know who signs.
"""

from collections.abc import Iterable
from typing import Any, Final, Literal, TypeAlias

from rocketmq_py.administration.broker_addresses import at_masters, masters
from rocketmq_py.administration.servers import Servers
from rocketmq_py.administration.table import (
    CREATE_POLICY,
    CREATE_USER,
    DELETE_POLICY,
    DELETE_USER,
    POLICIES,
    PUT_POLICY,
    UPDATE_USER,
    USERS,
)
from rocketmq_py.administration.values import Policy, User, UserChange
from rocketmq_py.errors import BodyError, ConfigError, MQClientException
from rocketmq_py.protocol.codes import ResponseCode
from rocketmq_py.protocol.lenient_json import dumps_fastjson

_SUBJECT: Final = "User:"
_CUSTOM: Final = "Custom"
Users: TypeAlias = dict[str, tuple[User, ...]]
"""By broker name."""
Policies: TypeAlias = dict[str, dict[str, tuple[Policy, ...]]]
"""By broker name, then by user."""
Act: TypeAlias = Literal["create", "alter"]


def _body(document: dict[str, Any]) -> bytes:  # Any: JSON
    return dumps_fastjson(document, dialect="standard")


def _objects(told: Any, what: str) -> list[dict[str, Any]]:  # Any: JSON
    found = [] if told is None else told
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise BodyError(what, "is no list of objects")
    return found


def _check_name(name: str) -> None:
    if not name.strip():
        raise ConfigError("name", name, "a user has a name")


async def users(servers: Servers, containing: str | None, at: str | None) -> Users:
    """Give users, or those whose name contains a text (3005)."""
    told = await at_masters(servers, USERS, await masters(servers, at), filter=containing)
    return {
        broker: tuple(_user(one) for one in _objects(found, "list of users"))
        for broker, found in told.items()
    }


def _user(one: dict[str, Any]) -> User:
    return User(
        str(one.get("username", "")),
        str(one.get("userType")).lower() == "super",
        str(one.get("userStatus", "enable")).lower() != "disable",
    )


async def create_user(
    servers: Servers, name: str, password: str, at: str | None, *, super_user: bool
) -> None:
    """Create a user (3001)."""
    _check_name(name)
    places = await masters(servers, at)
    body = _user_body(name, password, super_user, None)
    await at_masters(servers, CREATE_USER, places, body=body, username=name)


async def alter_user(
    servers: Servers,
    name: str,
    password: str | None,
    super_user: bool | None,
    enabled: bool | None,
    at: str | None,
    *,
    dry_run: bool,
) -> dict[str, UserChange]:
    """Change what is given of a user (3002); MQClientException when no broker has it."""
    _check_name(name)
    places = await masters(servers, at)
    changes: dict[str, UserChange] = {}
    for broker, found in (await users(servers, name, at)).items():
        for one in found:
            after = User(
                one.name,
                one.super_user if super_user is None else super_user,
                one.enabled if enabled is None else enabled,
            )
            if one.name == name:
                changes[broker] = UserChange(one, after, password is not None)
    if not changes:
        raise MQClientException(
            f"user {name} is at none of {', '.join(places)}: create it",
            response_code=ResponseCode.USER_NOT_EXIST,
        )
    if not dry_run:
        body = _user_body(name, password, super_user, enabled)
        known = {broker: places[broker] for broker in changes}
        await at_masters(servers, UPDATE_USER, known, body=body, username=name)
    return changes


def _user_body(
    name: str, password: str | None, super_user: bool | None, enabled: bool | None
) -> bytes:
    given = {
        "username": name,
        "password": password,
        "userType": None if super_user is None else "Super" if super_user else "Normal",
        "userStatus": None if enabled is None else "enable" if enabled else "disable",
    }
    return _body({key: value for key, value in given.items() if value is not None})


async def delete_user(servers: Servers, name: str, at: str | None, *, dry_run: bool) -> Policies:
    """Remove a user with all policies (3003); gives the policies that go, by broker that has it."""
    _check_name(name)
    places = await masters(servers, at)
    there = await users(servers, name, at)
    has = [broker for broker, found in there.items() if any(one.name == name for one in found)]
    held = await policies(servers, name, None, at)
    gone = {broker: {name: held[broker].get(name, ())} for broker in has}
    if not dry_run:
        known = {broker: places[broker] for broker in has}
        await at_masters(servers, DELETE_USER, known, username=name)
    return gone


async def policies(
    servers: Servers, user: str | None, resource: str | None, at: str | None
) -> Policies:
    """Give policies by user, of users and about resources whose names contain a text (3010)."""
    told = await at_masters(
        servers,
        POLICIES,
        await masters(servers, at),
        subject_filter=user,
        resource_filter=resource,
    )
    return {
        broker: {
            str(one.get("subject", "")).removeprefix(_SUBJECT): _policies(one)
            for one in _objects(found, "list of policies")
        }
        for broker, found in told.items()
    }


def _policies(one: dict[str, Any]) -> tuple[Policy, ...]:
    return tuple(
        Policy(
            str(entry.get("resource", "")),
            tuple(str(action) for action in entry.get("actions") or ()),
            str(entry.get("decision", "")).lower() == "allow",
            tuple(str(address) for address in entry.get("sourceIps") or ()),
        )
        for policy in _objects(one.get("policies"), "policies of a user")
        for entry in _objects(policy.get("entries"), "entries of a policy")
    )


async def put_policies(
    servers: Servers, user: str, wanted: Iterable[Policy], at: str | None, *, dry_run: bool
) -> Policies:
    """Add policies to a user, or replace those about the same resources (3006, 3007).

    Gives those that are replaced.
    """
    _check_name(user)
    wanted = tuple(wanted)
    entries = [
        {
            "resource": one.resource,
            "actions": list(one.actions),
            "decision": "Allow" if one.allowed else "Deny",
            **({"sourceIps": list(one.source_ips)} if one.source_ips else {}),
        }
        for one in wanted
    ]
    if not entries:
        raise ConfigError("policies", entries, "must be one at least")
    subject = _SUBJECT + user
    body = _body({"subject": subject, "policies": [{"policyType": _CUSTOM, "entries": entries}]})
    places = await masters(servers, at)
    held = await policies(servers, user, None, at)
    about = {one.resource for one in wanted}
    replaced = {
        broker: {user: tuple(one for one in found.get(user, ()) if one.resource in about)}
        for broker, found in held.items()
    }
    if dry_run:
        return replaced
    # A real broker changes what is there and creates what is not, each by its own request.
    for row, at_these in (
        (PUT_POLICY, {name: one for name, one in places.items() if user in held[name]}),
        (CREATE_POLICY, {name: one for name, one in places.items() if user not in held[name]}),
    ):
        await at_masters(servers, row, at_these, body=body, subject=subject)
    return replaced


async def delete_policies(
    servers: Servers, user: str, resource: str | None, at: str | None, *, dry_run: bool
) -> Policies:
    """Remove the policy about a resource, or all of a user (3008); gives what goes."""
    _check_name(user)
    places = await masters(servers, at)
    held = await policies(servers, user, None, at)
    gone = {
        broker: {user: going}
        for broker, found in held.items()
        if (going := tuple(one for one in found.get(user, ()) if resource in {None, one.resource}))
    }
    if not dry_run:
        known = {broker: places[broker] for broker in gone}
        await at_masters(
            servers,
            DELETE_POLICY,
            known,
            subject=_SUBJECT + user,
            policy_type=_CUSTOM,
            resource=resource,
        )
    return gone
