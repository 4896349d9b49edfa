"""The programs of the page for users of the official Python client run as they stand there.

The one from before runs, too: a module `rocketmq` that gives `compat.v5` stands for the official
package, so both differ in the import line and the address alone.
"""

from __future__ import annotations

import builtins
import io
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from datetime import timedelta

import pytest

from compat import v5
from embedded_broker import EmbeddedBroker, VirtualClock
from rocketmq_py.protocol.codes import RequestCode
from tests.pages import files_of
from tests.waiting import until

PAGE = "MIGRATION.md"
FILES = {name: text for name, text in files_of(PAGE).items() if name.startswith("v5_")}
RUN = {"v5_before.py", "v5_after.py", "v5_units.py", "v5_receive.py", "v5_transaction.py"}
PATIENCE_S = 20.0


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(clock=VirtualClock(), topics=["Mails", "Payments"]) as started:
        yield started


def printed(name: str, broker: EmbeddedBroker, wait: Callable[[str], None] | None = None) -> str:
    """Run a file of the page; ``wait`` gets what was printed when the program waits for Enter."""
    text = FILES[name]
    for port in ("8081", "9876"):
        text = text.replace(f"127.0.0.1:{port}", broker.namesrv_addr)
    out = io.StringIO()

    def enter(_prompt: str) -> str:
        assert wait is not None
        wait(out.getvalue())
        return ""

    names: dict[str, object] = {"__name__": "__main__"}
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out):
        patch.setattr(builtins, "input", enter)
        exec(compile(text, name, "exec"), names)  # noqa: S102 - our own page
    return out.getvalue()


def test_every_file_is_run_here() -> None:
    assert FILES.keys() == RUN


def test_both_programs_differ_in_the_import_lines_and_the_address_alone() -> None:
    before, after = (FILES[name].splitlines()[1:] for name in ("v5_before.py", "v5_after.py"))
    ported = "\n".join(before).replace("from rocketmq ", "from compat.v5 ").replace("8081", "9876")
    assert ported == "\n".join(after)


@pytest.mark.parametrize("name", ["v5_before.py", "v5_after.py"])
def test_the_message_comes_ten_seconds_later_by_a_pop(
    name: str, broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "rocketmq", v5)

    def wait(so_far: str) -> None:
        assert so_far == "sent\n"
        broker.clock.advance(8)
        assert broker.messages.in_topic("Mails") == []
        broker.clock.advance(3)
        until(lambda: broker.journal.requests(code=RequestCode.ACK_MESSAGE), PATIENCE_S)

    assert printed(name, broker, wait) == "sent\ngot b'hello', attempt 1\n"
    assert broker.journal.requests(code=RequestCode.POP_MESSAGE)
    assert not broker.journal.requests(code=RequestCode.PULL_MESSAGE)


def test_units_are_told_apart(broker: EmbeddedBroker) -> None:
    told = printed("v5_units.py", broker)
    assert told == "milliseconds are no seconds\nseconds are no milliseconds\n"


def test_what_is_not_acked_comes_again_after_its_time(broker: EmbeddedBroker) -> None:
    broker.send("Mails", b"not now")
    assert printed("v5_receive.py", broker) == "got b'not now'\n"
    broker.clock.advance(timedelta(minutes=10, seconds=1))
    assert printed("v5_receive.py", broker) == "got b'not now'\n"
    broker.send("Mails", b"done")
    assert printed("v5_receive.py", broker) == "got b'done'\n"
    assert len(broker.journal.requests(code=RequestCode.ACK_MESSAGE)) == 1


def test_a_committed_transaction_is_delivered(broker: EmbeddedBroker) -> None:
    assert printed("v5_transaction.py", broker) == "committed\n"
    broker.wait_delivered("Payments")
    assert [one.body for one in broker.messages.in_topic("Payments")] == [b"paid 42"]
