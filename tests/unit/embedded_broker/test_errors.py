"""The broker's own errors fit the tree and survive pickling."""

import pickle

import pytest

from embedded_broker import errors
from rocketmq_py.errors import RocketMQError


@pytest.mark.parametrize("name", errors.__all__)
def test_every_error_is_a_rocketmq_error_and_pickles(name: str) -> None:
    kind = getattr(errors, name)
    assert issubclass(kind, RocketMQError)

    again = pickle.loads(pickle.dumps(kind("what happened")))  # noqa: S301 - our own bytes

    assert type(again) is kind
    assert str(again) == "what happened"


def test_a_failed_wait_is_a_timeout_for_generic_handlers() -> None:
    assert issubclass(errors.WaitTimeoutError, TimeoutError)


def test_a_locked_store_is_a_store_error() -> None:
    assert issubclass(errors.StoreLockedError, errors.StoreError)
