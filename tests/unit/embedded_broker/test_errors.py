"""The broker's own errors fit the tree and survive pickling."""

import pickle

import pytest

from embedded_broker import errors
from rocketmq_py.errors import RocketMQError

NAMES = [
    name
    for name, kind in vars(errors).items()
    if getattr(kind, "__module__", "") == errors.__name__
]


@pytest.mark.parametrize("name", NAMES)
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
