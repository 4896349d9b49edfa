"""`python -m tests.perf.telling_server [name=value ...]`: our broker as a process to ask.

It prints `ready namesrv=...` as `rocketmq-py serve` does, then obeys lines of standard input, each
answered by a line of JSON: `set NAME VALUE` changes an option, `topic NAME QUEUES` makes a topic,
`visible TOPIC` gives how many of its messages can be read, and `requests CODE` how many requests of
a code the journal holds, by the port of the peer, and empties it. It ends with its input.
"""

from __future__ import annotations

import json
import sys
from collections import Counter

from embedded_broker import EmbeddedBroker


def main(settings: list[str]) -> None:
    """Serve until standard input ends."""
    with EmbeddedBroker(config=dict(one.split("=", 1) for one in settings)) as broker:
        print(f"ready namesrv={broker.namesrv_addr}", flush=True)
        for line in sys.stdin:
            print(json.dumps(answer(broker, *line.split())), flush=True)


def answer(broker: EmbeddedBroker, what: str, *given: str) -> object:
    """Carry out one line."""
    if what == "set":
        broker.config.update(**{given[0]: given[1]})
        return True
    if what == "topic":
        broker.topics.create(given[0], queues=int(given[1]))
        return True
    if what == "visible":
        return broker.topics[given[0]].count()
    # The journal's entries tell a number for each connection; the peer's port is in the ring.
    kept = list(broker.journal._ring)
    broker.journal.clear()
    found = Counter(one.connection.remote[1] for one in kept if one.entry().code == int(given[0]))
    return dict(found)


if __name__ == "__main__":
    main(sys.argv[1:])
