"""With the extra `cli`: make a store with a waiting timer in the given folder."""

import sys
from datetime import timedelta
from pathlib import Path

from embedded_broker import EmbeddedBroker

with EmbeddedBroker(store=Path(sys.argv[1])) as broker:
    broker.send("Reminders", b"x", delay=timedelta(hours=1))
