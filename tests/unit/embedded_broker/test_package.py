"""The package's public names load on first use."""

import subprocess
import sys

import pytest

import embedded_broker


@pytest.mark.parametrize("name", embedded_broker.__all__)
def test_every_public_name_can_be_imported(name: str) -> None:
    assert getattr(embedded_broker, name).__name__ == name
    assert name in dir(embedded_broker)


def test_whatever_a_broker_shows_has_a_type_that_can_be_imported() -> None:
    broker = embedded_broker.EmbeddedBroker(tcp=False)
    shown = [name for name in dir(broker) if not name.startswith("_")]
    assert {"join", "slot"}.isdisjoint(shown)
    views = (
        broker.topics,
        broker.messages,
        broker.timers,
        broker.groups,
        broker.faults,
        broker.faults.disk,
        broker.journal,
        broker.put_hooks,
        broker.config,
    )
    for view in views:
        assert getattr(embedded_broker, type(view).__name__) is type(view)


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Nonsense'"):
        _ = embedded_broker.Nonsense


def test_a_broker_without_a_port_loads_neither_asyncio_nor_ssl() -> None:
    program = (
        "import sys\n"
        "from embedded_broker import EmbeddedBroker\n"
        "with EmbeddedBroker(tcp=False) as broker:\n"
        "    broker.send('T', b'x')\n"
        "print(sorted({'asyncio', 'ssl', 'typer', 'rich'} & set(sys.modules)))\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=30
    )

    assert done.stdout.strip() == "[]"
