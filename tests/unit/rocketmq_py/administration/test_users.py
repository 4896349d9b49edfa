"""Users and policies of ACL 2, which a broker has that was told where to keep them."""

from __future__ import annotations

import pytest

from embedded_broker import AuthUser, EmbeddedBroker, UserAcl
from rocketmq_py import (
    Credentials,
    DefaultMQProducer,
    Message,
    MQClientException,
    PermissionDeniedError,
    RequestNotSupportedError,
)
from rocketmq_py.admin import AdminClient, Policy, User
from rocketmq_py.errors import ConfigError

BROKER = "broker-a"


def test_users_come_change_and_go() -> None:
    with (
        EmbeddedBroker() as broker,
        AdminClient(namesrv_addr=broker.namesrv_addr) as admin,
    ):
        assert admin.users() == {BROKER: ()}
        admin.create_user("shopper", "12345678")
        assert admin.users() == {BROKER: (User("shopper", super_user=False, enabled=True),)}
        assert admin.users("nobody") == {BROKER: ()}
        said = admin.alter_user("shopper", super_user=True, enabled=False, dry_run=True)
        assert said[BROKER].after == User("shopper", super_user=True, enabled=False)
        assert admin.users("shop")[BROKER] == (said[BROKER].before,)
        assert admin.alter_user("shopper", super_user=True, enabled=False) == said
        assert admin.users("shop") == {BROKER: (User("shopper", super_user=True, enabled=False),)}
        with pytest.raises(PermissionDeniedError, match="existed"):
            admin.create_user("shopper", "12345678")
        with pytest.raises(MQClientException, match="create it"):
            admin.alter_user("nobody", enabled=False)
        assert admin.delete_user("shopper", dry_run=True) == {BROKER: {"shopper": ()}}
        assert admin.users()[BROKER] != ()
        admin.delete_user("shopper")
        assert admin.users() == {BROKER: ()}
        assert admin.delete_user("shopper") == {}
        with pytest.raises(ConfigError, match="has a name"):
            admin.create_user(" ", "12345678")


def test_policies_come_are_replaced_and_go_with_their_user() -> None:
    orders = Policy("Topic:Orders", ("Pub",))
    closed = Policy("Topic:Orders", ("Sub",), allowed=False)
    readers = Policy("Group:pay", ("Sub",), source_ips=("10.0.0.1",))
    with (
        EmbeddedBroker() as broker,
        AdminClient(namesrv_addr=broker.namesrv_addr) as admin,
    ):
        admin.create_user("shopper", "12345678")
        assert admin.policies() == {BROKER: {}}
        admin.put_policies("shopper", [orders])
        assert admin.policies() == {BROKER: {"shopper": (orders,)}}
        said = admin.put_policies("shopper", [closed, readers], dry_run=True)
        assert said == {BROKER: {"shopper": (orders,)}}
        assert admin.policies() == said
        assert admin.put_policies("shopper", [closed, readers]) == said
        assert set(admin.policies("shopper")[BROKER]["shopper"]) == {closed, readers}
        assert admin.policies(resource="Group")[BROKER] == {"shopper": (readers,)}
        gone = admin.delete_policies("shopper", "Group:pay", dry_run=True)
        assert gone == {BROKER: {"shopper": (readers,)}}
        assert set(admin.policies()[BROKER]["shopper"]) == {closed, readers}
        assert admin.delete_policies("shopper", "Group:pay") == gone
        assert admin.policies()[BROKER] == {"shopper": (closed,)}
        assert admin.delete_user("shopper") == {BROKER: {"shopper": (closed,)}}
        assert admin.policies() == {BROKER: {}}


def test_a_broker_before_5_3_has_none_of_them() -> None:
    with (
        EmbeddedBroker(profile="rocketmq-4.9") as broker,
        AdminClient(namesrv_addr=broker.namesrv_addr) as admin,
        pytest.raises(
            RequestNotSupportedError, match=r"3005 .*version 4\.9\.4.*since 5\.3"
        ) as told,
    ):
        admin.users()
    assert (told.value.request_code, told.value.server_version) == (3005, "4.9.4")


def test_who_signs_as_the_owner_lets_a_user_in_and_out_again() -> None:
    owner = AuthUser(username="root", password="12345678", superuser=True)
    with EmbeddedBroker(acl=UserAcl(users=[owner]), topics=["Orders"]) as broker:
        guest = Credentials("shopper", "87654321")
        with (
            AdminClient(
                namesrv_addr=broker.namesrv_addr, credentials=Credentials("root", "12345678")
            ) as admin,
            DefaultMQProducer("P", namesrv_addr=broker.namesrv_addr, credentials=guest) as producer,
        ):
            with pytest.raises(PermissionDeniedError):
                producer.send(Message("Orders", b"x"))
            admin.create_user("shopper", "87654321")
            admin.put_policies("shopper", [Policy("Topic:Orders", ("Pub",))])
            producer.send(Message("Orders", b"x"))
            admin.alter_user("shopper", enabled=False)
            with pytest.raises(PermissionDeniedError):
                producer.send(Message("Orders", b"x"))
        with (
            AdminClient(namesrv_addr=broker.namesrv_addr, credentials=guest) as admin,
            pytest.raises(PermissionDeniedError),
        ):
            admin.users()
