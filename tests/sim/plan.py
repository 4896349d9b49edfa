"""What a run draws once, before anything happens: precisions, sizes, how the disk is synced.

Answers: which store is simulated. The wheel has at least 240 slots and the files are tiny, so
that every run goes around the wheel, hops, and crosses files. Must not know: the operations.
"""

from __future__ import annotations

from random import Random

from rocketmq_py.protocol.names import SLICE_TIMER_TOPIC, TIMER_TOPIC

TOPICS = ("A", "B", "Orders-7")
QUEUES = 2


class Plan:
    """The settings of one run."""

    def __init__(self, random: Random, engine: str = "wheel") -> None:
        self.precision_ms = precision_ms = random.choice((100, 200, 500, 1000))
        self.release_precision_ms = random.choice((1, 1, 1, precision_ms // 10, precision_ms))
        self.slots = random.choice((240, 240, 300, 400))
        self.window = random.choice((2, 3, 5, 8, 20, 60, self.slots - 60))
        self.far_slots = min(self.window * 12, self.slots * 5 // 2)
        self.sync_flush = random.random() < 0.5
        self.persistent = random.random() < 0.25
        self.clock_may_go_back = random.random() < 0.4
        self.crashes = random.choice((2, 2, 3, 4))
        self.start_ms = 1_700_000_000_000 + random.randrange(10**9)
        self.settings: dict[str, object] = {
            "timerPrecisionMs": precision_ms,
            "timerReleasePrecisionMs": self.release_precision_ms,
            "timerRollWindowSlot": self.window,
            "flushDiskType": "SYNC_FLUSH" if self.sync_flush else "ASYNC_FLUSH",
            "mappedFileSizeCommitLog": random.choice((4096, 8192, 32768, 1 << 20)),
            "mappedFileSizeConsumeQueue": random.choice((200, 2000, 6000)),
            "mappedFileSizeTimerLog": random.choice((256, 1024, 4096)),
            "maxHashSlotNum": 100,
            "maxIndexNum": random.choice((300, 2000)),
            "messageDelayLevel": "1s 5s 10s 30s",
            "enableScheduleAsyncDeliver": random.random() < 0.3,
        }
        self.engine = engine
        self.timer_topic = SLICE_TIMER_TOPIC if engine == "sliced" else TIMER_TOPIC
        if engine == "sliced":
            self._slice(random)

    def _slice(self, random: Random) -> None:
        """Take the engine of time slices; it is precise to a second, whatever the wheel's slot."""
        self.precision_ms = self.release_precision_ms = 1000
        self.settings |= {
            "timerEngine": "sliced",
            "timeSliceLength": random.choice((1, 2, 7, 30, 60, 300)),
            "slicePreloadSec": random.choice((0, 1, 5, 60)),
            "mappedFileSizeDCommitLog": random.choice((1024, 2048, 8192, 1 << 16)),
        }
