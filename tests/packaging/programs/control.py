"""With the extra `control`: ask a broker's HTTP face what time it is, and move it."""

import json
from urllib.request import Request, urlopen

from embedded_broker import EmbeddedBroker, VirtualClock

with EmbeddedBroker(control=True, clock=VirtualClock(), topics=["T"]) as broker:
    broker.send("T", b"x", delay=60)
    kind = {"Content-Type": "application/json"}
    request = Request(f"{broker.control_url}/clock/run", b'{"minutes": 1}', kind)  # noqa: S310
    with urlopen(request) as answer:  # noqa: S310 - it is our own
        print("works" if json.load(answer)["fired"] == 1 else "does not work")
