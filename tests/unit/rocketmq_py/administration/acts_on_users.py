"""What becomes of users and policies by the acts of an administrator, on any broker of 5.3."""

from __future__ import annotations

import pytest

from rocketmq_py import MQClientException, PermissionDeniedError
from rocketmq_py.admin import AdminClient, Policy, User

NAME = "shopper"
ORDERS = Policy("Topic:Orders", ("Pub",))
CLOSED = Policy("Topic:Orders", ("Sub",), allowed=False)
READERS = Policy("Group:pay", ("Sub",), source_ips=("10.0.0.1",))


def play_users(admin: AdminClient) -> None:
    """Create a user, change it and remove it, and look at it each time."""
    (broker,) = (one.name for one in admin.brokers())
    before = admin.users()
    assert admin.users(NAME) == {broker: ()}
    admin.create_user(NAME, "12345678")
    assert admin.users(NAME) == {broker: (User(NAME, super_user=False, enabled=True),)}
    assert len(admin.users()[broker]) == len(before[broker]) + 1
    assert admin.users("nobody") == {broker: ()}
    said = admin.alter_user(NAME, super_user=True, enabled=False, dry_run=True)
    assert said[broker].after == User(NAME, super_user=True, enabled=False)
    assert admin.users(NAME)[broker] == (said[broker].before,)
    assert admin.alter_user(NAME, super_user=True, enabled=False) == said
    assert admin.users(NAME)[broker] == (said[broker].after,)
    with pytest.raises(PermissionDeniedError, match="existed"):
        admin.create_user(NAME, "12345678")
    with pytest.raises(MQClientException, match="create it"):
        admin.alter_user("nobody", enabled=False)
    assert admin.delete_user(NAME, dry_run=True) == {broker: {NAME: ()}}
    assert admin.users(NAME)[broker] != ()
    admin.delete_user(NAME)
    assert admin.users() == before
    assert admin.delete_user(NAME) == {}


def play_policies(admin: AdminClient) -> None:
    """Give a user policies, replace and take them, and look at them each time."""
    (broker,) = (one.name for one in admin.brokers())
    admin.create_user(NAME, "12345678")
    assert admin.policies(NAME) == {broker: {}}
    admin.put_policies(NAME, [ORDERS])
    assert admin.policies(NAME) == {broker: {NAME: (ORDERS,)}}
    said = admin.put_policies(NAME, [CLOSED, READERS], dry_run=True)
    assert said == {broker: {NAME: (ORDERS,)}}
    assert admin.policies(NAME) == said
    assert admin.put_policies(NAME, [CLOSED, READERS]) == said
    assert set(admin.policies(NAME)[broker][NAME]) == {CLOSED, READERS}
    assert admin.policies(resource="Group:pay")[broker] == {NAME: (READERS,)}
    gone = admin.delete_policies(NAME, "Group:pay", dry_run=True)
    assert gone == {broker: {NAME: (READERS,)}}
    assert set(admin.policies(NAME)[broker][NAME]) == {CLOSED, READERS}
    assert admin.delete_policies(NAME, "Group:pay") == gone
    assert admin.policies(NAME)[broker] == {NAME: (CLOSED,)}
    assert admin.delete_user(NAME) == {broker: {NAME: (CLOSED,)}}
    assert admin.policies(NAME) == {broker: {}}
