"""Leftovers of a test that would harm the next one, or prove nothing.

Answers: the complaints at the end of a test, each with its remedy. Must not know: pytest. No broker
is imported here: every test of a project is looked at, and most have none. Read on:
``embedded_broker/kit/plugin.py``, which lets the test fail by them.
"""

import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from embedded_broker.kit.crash import CrashPlan
    from embedded_broker.kit.fixture_broker import EmbeddedFixtureBroker
    from embedded_broker.lifecycle.running_brokers import RunningBrokers
    from rocketmq_py import RunningClient

NAMED_MAX: Final = 5
ENDS_WITHIN_S: Final = 3.0
"""How long a shutdown may go on in background before its client counts as left open."""


def running_clients() -> "tuple[RunningClient, ...]":
    """Give the clients of this process, without importing them only to see that none runs.

    One whose ``shutdown`` had a short time-out may still be leaving: it is waited for.
    """
    module = sys.modules.get("rocketmq_py.client.pool")
    if module is None or not module.running_clients():
        return ()
    module.wait_for_ends(ENDS_WITHIN_S)
    still_there: tuple[RunningClient, ...] = module.running_clients()
    return still_there


def clients_left_open(clients: "Iterable[RunningClient]") -> Iterator[str]:
    """Name clients that run and should not."""
    for client in clients:
        members = [("producer", group) for group in client.producer_groups]
        members += [("consumer", group) for group in client.consumer_groups]
        for kind, group in members:
            yield (
                f"{kind} of group {group!r} was left open (client {client.client_id}): call "
                f"shutdown(), use it in a with block, or take rocketmq_{kind}"
            )
        if not members:  # such as that of an administrator
            yield (
                f"client {client.client_id} was left open: call shutdown(), or use it in a with "
                "block"
            )


def faults_never_hit(
    fixture: "EmbeddedFixtureBroker", plans: Iterable["CrashPlan"]
) -> Iterator[str]:
    """Name the faults and crashes that were asked for and did not happen."""
    crashes = list(plans)
    for plan in crashes:
        if not plan.crashes:
            yield f"{plan!r} never happened: no such request came so often{_requests(fixture)}"
    planned = [plan.fault for plan in crashes]
    for broker in fixture.brokers:
        for fault in broker.faults.unused:
            if fault not in planned:
                yield (
                    f"{fault!r} was asked for and never happened, so it proved nothing: check "
                    f"code, topic and nth{_requests(fixture)}"
                )


def _requests(fixture: "EmbeddedFixtureBroker") -> str:
    """Say which requests came instead, the most frequent first."""
    from rocketmq_py.protocol.codes import RequestCode

    codes = Counter(one.code for one in fixture.broker.journal.requests())
    came = Counter({one.name: codes[one] for one in RequestCode if one in codes})
    told = ", ".join(f"{name} {times}" for name, times in came.most_common(NAMED_MAX))
    return f". These requests came: {told}" if told else ". No request came"


def running_brokers() -> "tuple[RunningBrokers, ...]":
    """Give the brokers of this process, without importing a broker only to see that none runs."""
    module = sys.modules.get("embedded_broker.lifecycle.running_brokers")
    return () if module is None else module.running()


def brokers_left_open(before: Iterable[object], *, close: bool) -> Iterator[str]:
    """Name the brokers that were started since and still run, and close them if asked to."""
    known = set(before)
    for brokers in running_brokers():
        if brokers not in known:
            told = repr(brokers)
            if close:
                brokers.close()
            yield (
                f"{told} was not closed: use it as `with EmbeddedBroker() as broker:`, or take "
                "rocketmq_broker"
            )
