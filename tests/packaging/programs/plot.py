"""With the extra `plot`: the waiting timers of a store become a picture."""

import sys
from datetime import timedelta
from pathlib import Path

from embedded_broker import EmbeddedBroker
from embedded_broker.inspector.picture import save_picture
from embedded_broker.inspector.reader import StoreFiles
from embedded_broker.inspector.report import report_of_store
from rocketmq_py import SystemClock

folder = Path(sys.argv[1])
with EmbeddedBroker(store=folder / "store") as broker:
    broker.send("Reminders", b"x", delay=timedelta(hours=1))
with StoreFiles.open(folder / "store") as files:
    report = report_of_store(files, now_ms=SystemClock().now_ms)
save_picture(report, folder / "timers.png")
assert (folder / "timers.png").read_bytes().startswith(b"\x89PNG")
print("works")
