"""Users and policies of ACL 2, which a broker has that was told where to keep them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from embedded_broker import AuthUser, EmbeddedBroker, UserAcl
from rocketmq_py import (
    Credentials,
    DefaultMQProducer,
    Message,
    PermissionDeniedError,
    RequestNotSupportedError,
)
from rocketmq_py.admin import AdminClient, Policy
from rocketmq_py.errors import ConfigError
from tests.unit.rocketmq_py.administration.acts_on_users import play_policies, play_users


@pytest.mark.parametrize("play", [play_users, play_policies])
def test_users_and_policies_come_change_and_go(play: Callable[[AdminClient], None]) -> None:
    with EmbeddedBroker() as broker, AdminClient(namesrv_addr=broker.namesrv_addr) as admin:
        play(admin)


def test_what_is_no_user_and_no_policy_is_refused() -> None:
    with EmbeddedBroker() as broker, AdminClient(namesrv_addr=broker.namesrv_addr) as admin:
        for call in (admin.delete_user, admin.alter_user, admin.delete_policies):
            with pytest.raises(ConfigError, match="has a name"):
                call(" ")
        with pytest.raises(ConfigError, match="has a name"):
            admin.create_user(" ", "12345678")
        with pytest.raises(ConfigError, match="one at least"):
            admin.put_policies("shopper", [])


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
