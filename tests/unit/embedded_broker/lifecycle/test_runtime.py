"""What brokers share: addresses and the order of start and end."""

import pytest

from embedded_broker import EmbeddedBroker
from embedded_broker.lifecycle.runtime import Runtime
from embedded_broker.remoting.inproc import LocalClients
from embedded_broker.remoting.journal import Journal


def runtime_of(broker: EmbeddedBroker) -> Runtime:
    return Runtime(broker._arguments, Journal(), 7, LocalClients())


def test_without_tcp_addresses_are_names_no_other_process_can_reach() -> None:
    runtime = runtime_of(EmbeddedBroker(tcp=False, broker_port=1234))

    assert runtime.open_namesrv(0) == "inproc-7.invalid:9876"
    assert runtime.open_address(1234, 10_911, 8) == "inproc-8.invalid:1234"


def test_with_tcp_a_free_port_is_bound_and_given_back_without_ever_starting() -> None:
    runtime = runtime_of(EmbeddedBroker())

    address = runtime.open_address(0, 10_911, 7)
    runtime.close()
    second = runtime_of(EmbeddedBroker())
    again = second.open_address(int(address.rpartition(":")[2]), 10_911, 7)
    second.close()

    assert address.startswith("127.0.0.1:")
    assert again == address


@pytest.mark.parametrize(("seed", "same"), [(5, True), (None, False)])
def test_random_choices_repeat_with_the_seed(seed: int | None, same: bool) -> None:
    drawn = [runtime_of(EmbeddedBroker(seed=seed)).random.getrandbits(64) for _ in range(2)]

    assert (drawn[0] == drawn[1]) is same
