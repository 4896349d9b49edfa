"""One simulated run: everything that happens to one store, decided by a seed.

Answers: which operations, in which order, and when the process dies. A run sends, recalls, lets
time pass in every way it can, flushes in steps with other work between them, fills the disk, and
dies at any change of any file: while it works, while it flushes, while it stops, while it
recovers. After every step what changed is checked; after each crash and at the end, everything.

Read on: `plan.py` for the numbers a run draws once, `truth.py` for what is checked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random

from embedded_broker.errors import StoreError
from embedded_broker.timer.outcomes import MoveOutcome
from embedded_broker.timer.wheel.engine import TimerMessageStore
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.handles import RecallHandle
from rocketmq_py.protocol.names import TIMER_TOPIC
from tests.sim.audit import (
    check_consumer_view,
    check_counts,
    check_listing,
    check_log_and_queues,
    check_store_walk,
)
from tests.sim.disk import Disk, SimulatedCrash
from tests.sim.harm import Flip, save_without_room
from tests.sim.life import HandClock, Life
from tests.sim.peer import Peer
from tests.sim.plan import QUEUES, TOPICS, Plan
from tests.sim.truth import Request, Timer, Truth, Violation, requested_ms

OPERATIONS = 200
TIMERS_LEAST = 50


class Story:
    """A run in progress. `run` plays it to its end or raises what went wrong."""

    def __init__(self, seed: int, engine: str = "wheel", *, harms: bool = True) -> None:
        self.harms = Random(seed + 1) if harms else None
        self.random = random = Random(seed)
        self.plan = plan = Plan(random, engine)
        self.totals: Counter[str] = Counter()
        self.trace: list[str] = []
        self.disk = Disk(Random(random.getrandbits(32)), persistent=plan.persistent)
        self.clock = HandClock(plan.start_ms)
        self.session_clock = HandClock(plan.start_ms)
        self.truth = Truth(plan.precision_ms, plan.release_precision_ms, plan.timer_topic)
        self.serial = 0
        self.forced = False
        self.operations: tuple[Callable[[], None], ...] = self._operations()
        self.life: Life
        self.peer: Peer

    def _operations(self) -> tuple[Callable[[], None], ...]:
        """Give the operations, each as often as its weight."""
        weights = {
            self.send_timer: 32,
            self.send_burst: 2,
            self.send_plain: 2,
            self.send_level: 2,
            self.send_again: 2,
            self.recall: 8,
            self.recall_exactly: 3,
            self.reschedule: 5,
            self.fire_now: 3,
            self.change_role: 2,
            self.stop_entering: 2,
            self.list_some: 2,
            self.advance: 10,
            self.sleep: 6,
            self.fall_behind: 4,
            self.fire_a_little: 4,
            self.set_back: 2,
            self.flush: 12,
            self.pass_session_time: 3,
            self.fill_disk: 1,
            self.count: 4,
            self.pull: 2,
            self.restart: 1,
        }
        return tuple(call for call, weight in weights.items() for _ in range(weight))

    # --- the course of a run ---------------------------------------------------------------------

    def run(self) -> None:
        """Play the run; raises `Violation`, or whatever the broker raises."""
        random = self.random
        self._open()
        crashes = sorted(random.sample(range(10, OPERATIONS - 10), self.plan.crashes))
        for number in range(OPERATIONS):
            if crashes and crashes[0] <= number:
                crashes.pop(0)
                self._plan_crash()
            missing = TIMERS_LEAST + 5 - self.truth.seen["timers"]
            must_send = missing >= OPERATIONS - number
            self._perform(self.send_timer if must_send else random.choice(self.operations))
            self.totals["operations"] += 1
            self._work_of_threads()
            if self.harms is not None and self.harms.random() < 0.02:
                self._perform(self.save_without_room)
        self._end()

    def _perform(self, call: Callable[[], None]) -> None:
        """Do one operation, then read what changed; the process may die in it."""
        refused = self.disk.refused
        try:
            call()
        except SimulatedCrash:
            self._die()
        except StoreError:
            # Whoever drives the broker logs it and goes on; the next step tries again.
            if self.disk.refused == refused:
                raise
            self.totals["disk errors"] += 1
        self.truth.observe(self.life.store)

    def _plan_crash(self) -> None:
        """Die now, or at one of the next changes of a file."""
        if self.random.random() < 0.3:
            self.note("killed")
            self._die()
        else:
            self.disk.arm(self.random.choice((1, 2, 3, 5, 8, 13, 21, 34)))

    def _work_of_threads(self) -> None:
        """What goes on beside the requests: a flush that was begun, or that an answer waits for."""
        if self.random.random() < 0.5:
            if self.life.is_flushing():
                self._perform(self._step_flush)
            elif self.life.flush_wanted:
                self._perform(self._flush_log)

    def _end(self) -> None:
        """Let time pass until every timer is due, stop and start once more: nothing is left."""
        if self.disk.is_armed:
            self.disk.disarm()
        while self.totals["crashes"] < 2:
            self.note("killed at the end")
            self._die()
        self._heal()
        last_ms = max((self.truth.released_by_ms(one) for one in self.truth.waiting()), default=0)
        while self.clock.now_ms < last_ms:
            step_ms = self.random.choice((self.plan.precision_ms, last_ms // 50, last_ms))
            self.life.advance(
                min(self.clock.now_ms + step_ms, last_ms),
                0,
                elide=self.random.random() < 0.5,
            )
        self._settle()
        self.restart()
        self._settle()
        if self.truth.waiting():
            raise Violation("timers are left at the end")
        self._audit()

    # --- lives -----------------------------------------------------------------------------------

    def _open(self) -> None:
        self.life = life = Life(
            self.disk,
            self.plan.settings,
            slots=self.plan.slots,
            clock=self.clock,
            session_clock=self.session_clock,
        )
        self.peer = Peer(life.parts, self.disk)
        life.parts.endpoint.connected(self.peer)
        for topic in TOPICS:
            known = life.parts.tables.topics.get(topic)
            # A topic that was in no file comes back with the queues that are known to be used.
            if known is None or known.read_queue_nums < QUEUES:
                self.peer.create_topic(topic, QUEUES)

    def _die(self) -> None:
        """Crash, be down for a while, recover (or die in that), and check everything."""
        random = self.random
        acked = self.truth.acked
        kept = self.life.store.flushed_offset
        ends_at = self.truth.end
        lost_power = False
        while True:
            power_lost = random.random() < 0.5
            lost_power = lost_power or power_lost
            loss = self.disk.reboot(power_lost=power_lost)
            self.totals["power losses" if power_lost else "kills"] += 1
            self.totals["lost syncs"] += loss.files > 0
            self.totals["lost names"] += loss.names > 0
            self._be_down()
            self.note(f"up again, power lost {power_lost}, {loss}")
            flip = self._draw_flip()
            if random.random() < 0.25:
                self.disk.arm(random.choice((1, 2, 3, 5, 8, 13)))
            try:
                self._open()
            except SimulatedCrash:
                self.totals["crashes in recovery"] += 1
                continue
            self.disk.disarm()
            break
        self.totals["crashes"] += 1
        end = self.life.store.log.max_offset
        if lost_power:
            end = min(end, self.truth.same_to(self.life.store, kept))
        self._check_what_is_kept(acked, kept if lost_power else ends_at, end)
        self.truth.cut(end)
        self.truth.observe(self.life.store)
        self.truth.life += 1
        check_counts(self.life, self.truth)
        if flip is not None:
            self.note(f"beside it a store with a flipped bit: {flip.text}")
            verdict = flip.judge(self.plan, self.clock.now_ms, self.life, self.truth)
            self.totals[verdict] += 1
        self._settle()
        self._audit()

    def _draw_flip(self) -> Flip | None:
        harms = self.harms
        return None if harms is None or harms.random() < 0.5 else Flip(self.disk, harms)

    def _check_what_is_kept(self, acked: dict[int, str], least: int, end: int) -> None:
        """A kill loses nothing, a power loss only what was not synced; acknowledged is kept."""
        self.truth.checks["what was durable is kept"] += 1
        if end < least:
            raise Violation(f"the log had {least} durable bytes and ends at {end}")
        if self.plan.sync_flush:
            self.truth.checks["acknowledged is durable"] += 1
            gone = {at: key for at, key in acked.items() if at >= end}
            if gone:
                raise Violation(f"acknowledged under SYNC_FLUSH and lost: {gone}")

    def _be_down(self) -> None:
        plan, random = self.plan, self.random
        self.session_clock.now_ms += 1000
        kind = random.random()
        if kind < 0.3:
            return
        if kind < 0.65:
            self.clock.now_ms += random.randint(0, 5 * plan.precision_ms)
        elif kind < 0.85:
            self.clock.now_ms += random.randint(0, plan.slots * plan.precision_ms)
        elif kind < 0.93:
            self.clock.now_ms += random.randint(0, 5 * plan.slots * plan.precision_ms)
        elif plan.clock_may_go_back:
            self._go_back()

    def restart(self) -> None:
        """Stop cleanly, be down, start again."""
        self._heal()
        self.note("restart")
        self.truth.observe(self.life.store)
        self.life.close()
        self.totals["clean restarts"] += 1
        self._be_down()
        self._open()
        end = self.life.store.log.max_offset
        if end < self.truth.end:
            raise Violation(f"a clean stop left {end} of {self.truth.end} bytes")
        # Of a pair that a full disk refused, the first message may lie there whole.
        self.truth.observe(self.life.store)
        self.truth.life += 1
        check_counts(self.life, self.truth)

    def _settle(self) -> None:
        """Fire everything that is due; then nothing due may wait."""
        self._heal()
        self.life.fire(0)
        self.truth.observe(self.life.store)
        self.truth.check_on_time(self.clock.now_ms)

    def _audit(self) -> None:
        check_counts(self.life, self.truth)
        check_listing(self.life, self.truth, self.random.choice((5, 30, 100)))
        check_log_and_queues(self.life, self.truth)
        check_consumer_view(self.peer, self.truth)
        check_store_walk(self.life, self.truth)

    def _heal(self) -> None:
        """Let the disk work again, and what waits for that go on; and be the master."""
        self.life.timers.set_should_running_dequeue(True)
        self.life.parts.config.update(timerStopEnqueue=False)
        self.disk.full_for = self.disk.full_saves = self.disk.refuse_syncs = 0
        self.life.pass_session_time(1000)

    # --- sending and recalling -------------------------------------------------------------------

    def send_timer(self) -> None:
        self._send(self._draw_request(self._draw_delay()))

    def send_burst(self) -> None:
        """Several timers for nearly the same time."""
        delay_ms = self._draw_delay()
        for _ in range(self.random.randint(2, 6)):
            self._send(self._draw_request(delay_ms + self.random.choice((0, 0, 1))))

    def send_plain(self) -> None:
        self._send(self._new_request({}))

    def send_level(self) -> None:
        level = self.random.randint(1, 4)
        self._send(self._new_request({"DELAY": str(level)}, level=level))

    def send_again(self) -> None:
        """A client that missed the answer sends the same message once more."""
        waiting = [one.request for one in self.truth.waiting() if not one.request.recalled]
        if waiting:
            self._send(self.random.choice(waiting))

    def recall(self) -> None:
        """Take a timer back by its handle, as a client does."""
        timer = self._draw_timer()
        handle = None if timer is None else timer.request.handle
        if timer is None or handle is None:
            return
        request = timer.request
        request.recalled = True
        accepts = RecallHandle.decode(handle).timestamp_ms > self.clock.now_ms
        outcome: list[int] = []
        faults = self.disk.refused

        def answered(answer: RemotingCommand) -> None:
            outcome.append(answer.code)
            self.totals["recalls" if answer.code == 0 else "recalls refused"] += 1

        self.note(f"recall {request.key}")
        self.peer.recall(request.topic, handle, answered)
        if outcome and (outcome[0] == 0) != accepts and self.disk.refused == faults:
            raise Violation(f"recall of {request.key} answered {outcome[0]}, accepts {accepts}")

    def recall_exactly(self) -> None:
        """Take a timer back as a test does: until the release itself."""
        timer = self._draw_timer()
        if timer is None:
            return
        request = timer.request
        was_recalled, request.recalled = request.recalled, True
        copies = [one for one in self.truth.timers.values() if one.request is request]
        waiting = any(one.waits for one in copies)
        self.note(f"recall exactly {request.key}")
        faults = self.disk.refused
        with self.life.parts.door:
            outcome = self.life.timers.recall(request.key, request.topic)
        self.totals["exact recalls"] += 1
        if self.disk.refused != faults:
            return
        expected = "recalled" if waiting else "already due"
        # What a mark without a victim left behind hides that the timer was released.
        if outcome.value != expected and (waiting or not was_recalled):
            raise Violation(f"recall of {request.key} said {outcome.value}, is {expected}")

    def reschedule(self) -> None:
        """Give a timer another time, also one that has passed."""
        now_ms = self.clock.now_ms
        timer = self._draw_timer()
        due_ms = now_ms + self._draw_delay()
        if timer is None:
            return
        if self.random.random() < 0.3:
            due_ms = timer.due_ms + self.random.choice((-1, 0, 1, self.plan.precision_ms))
        key = timer.request.key
        self.note(f"reschedule {key} to {due_ms}")
        self.totals["reschedules"] += 1

        self._move(timer, lambda: self.life.timers.reschedule(key, due_ms, timer.request.topic))
        if due_ms > now_ms:
            for one in self._waiting_of(timer.request):
                if one.due_ms != due_ms:
                    raise Violation(f"{key} was moved to {due_ms} and is due at {one.due_ms}")

    def fire_now(self) -> None:
        """Have a timer delivered at once."""
        timer = self._draw_timer()
        if timer is None:
            return
        key = timer.request.key
        self.note(f"fire {key} now")
        self.totals["fire nows"] += 1
        self._move(timer, lambda: self.life.timers.fire_now(key))

    def _move(self, timer: Timer, call: Callable[[], MoveOutcome]) -> None:
        waiting = self._waiting_of(timer.request)
        faults = self.disk.refused
        with self.life.parts.door:
            outcome = call()
        self.truth.observe(self.life.store)
        expected = outcome is MoveOutcome.MOVED
        if bool(waiting) != expected and self.disk.refused == faults:
            raise Violation(f"{timer.request.key} was {outcome.value}, waiting were {waiting}")

    def _waiting_of(self, request: Request) -> list[Timer]:
        return [one for one in self.truth.timers.values() if one.request is request and one.waits]

    def _draw_timer(self) -> Timer | None:
        timers = self.truth.waiting()
        if not timers or self.random.random() < 0.15:
            timers = list(self.truth.timers.values())
        return self.random.choice(timers) if timers else None

    def _new_request(self, properties: dict[str, str], *, level: int = 0) -> Request:
        self.serial += 1
        random = self.random
        request = Request(
            topic=random.choice(TOPICS),
            queue_id=random.randrange(QUEUES),
            body=b"%d:" % self.serial + bytes(random.choice((0, 5, 60))),
            properties=properties,
            key=f"K{self.serial:04d}",
            level=level,
        )
        self.truth.requests[request.key] = request
        return request

    def _draw_request(self, delay_ms: int) -> Request:
        kind = self.random.choice(("ms", "ms", "sec", "at", "at", "start"))
        if kind == "ms":
            properties = {"TIMER_DELAY_MS": str(delay_ms)}
        elif kind == "sec":
            properties = {"TIMER_DELAY_SEC": str(-(-delay_ms // 1000))}
        elif kind == "at":
            properties = {"TIMER_DELIVER_MS": str(self.clock.now_ms + delay_ms)}
        else:
            properties = {"__STARTDELIVERTIME": str(self.clock.now_ms + delay_ms)}
        return self._new_request(properties)

    def _draw_delay(self) -> int:
        random, plan = self.random, self.plan
        step_ms, now_ms = plan.precision_ms, self.clock.now_ms
        kind = random.random()
        if kind < 0.2:
            return random.randint(1, 3 * step_ms)
        if kind < 0.35:
            boundary_ms = (now_ms // step_ms + random.randint(1, 6)) * step_ms
            return max(1, boundary_ms - now_ms + random.choice((-1, 0, 1)))
        if kind < 0.65:
            return random.randint(1, 40 * step_ms)
        if kind < 0.9:
            return random.randint(1, plan.far_slots * step_ms)
        waiting = self.truth.waiting()
        if kind < 0.96 and waiting:
            return random.choice(waiting).due_ms - now_ms
        return random.choice((0, -1, -5000))

    def _send(self, request: Request) -> None:
        due_ms = requested_ms(request.properties, self.clock.now_ms)
        self.note(f"send {request.key} due {due_ms}")
        self.totals["sends"] += 1

        def answered(answer: RemotingCommand) -> None:
            if answer.code:
                self.totals["sends refused"] += 1
                return
            self.totals["sends acknowledged"] += 1
            offset = int(answer.ext_fields["msgId"][-16:], 16)
            self.truth.acked[offset] = request.key
            request.handle = answer.ext_fields.get("recallHandle", request.handle)

        properties = {"UNIQ_KEY": request.key, "WAIT": "true", **request.properties}
        self.peer.send(
            request.topic,
            request.queue_id,
            request.body,
            properties,
            self.clock.now_ms,
            answered,
        )

    # --- time ------------------------------------------------------------------------------------

    def advance(self) -> None:
        """Fire in due order up to a new time."""
        target_ms = self.clock.now_ms + self._draw_span()
        elide = self.random.random() < 0.6
        self.note(f"advance to {target_ms}, elide {elide}")
        self.totals["advances"] += 1
        self.life.advance(target_ms, self._draw_turns(), elide=elide)
        self._check_on_time()

    def sleep(self) -> None:
        """Wake up late and fire everything that is overdue."""
        self.clock.now_ms += self._draw_span()
        self.note(f"sleep until {self.clock.now_ms}")
        self.life.fire(self._draw_turns())
        self._check_on_time()

    def fall_behind(self) -> None:
        """Time passes, and nobody fires what is due."""
        self.clock.now_ms += self._draw_span()
        self.note(f"fall behind to {self.clock.now_ms}")

    def fire_a_little(self) -> None:
        """Fire some of what is due, and stop in the middle."""
        self.note("fire a little")
        self.life.fire(self.random.randint(1, 4), entries=self.random.randint(1, 3))

    def set_back(self) -> None:
        """The machine's clock is corrected."""
        if self.plan.clock_may_go_back:
            self._go_back()
            self.note(f"set back to {self.clock.now_ms}")

    def _go_back(self) -> None:
        slots = self.random.choice((1, 3, 3, 100))
        self.clock.now_ms -= self.random.randint(1, slots * self.plan.precision_ms)
        self.truth.was_set_back = True
        self.totals["clock set back"] += 1

    def _draw_span(self) -> int:
        random, step_ms = self.random, self.plan.precision_ms
        kind = random.random()
        if kind < 0.4:
            return random.randint(1, step_ms)
        if kind < 0.7:
            return random.randint(1, 5 * step_ms)
        if kind < 0.92:
            return random.randint(1, 40 * step_ms)
        return random.randint(1, self.plan.slots * step_ms * 5 // 4)

    def _draw_turns(self) -> int:
        return self.random.choice((0, 0, 0, 1, 2, 7))

    def _check_on_time(self) -> None:
        self.truth.observe(self.life.store)
        if not self.life.timers.should_running_dequeue:
            return
        if self.disk.full_for == 0 and not self.life.parts.session.next_deadline():
            self.truth.check_on_time(self.clock.now_ms)

    # --- the rest --------------------------------------------------------------------------------

    def flush(self) -> None:
        """Begin a flush, or go on with the one that runs."""
        if self.life.is_flushing():
            self._step_flush()
            return
        levels = self.random.random() < 0.3
        self.note(f"flush, levels {levels}")
        self.totals["flushes"] += 1
        self.life.begin_flush(timers=True, levels=levels)
        for _ in range(self.random.choice((0, 1, 3, 3, 3))):
            if self.life.is_flushing():
                self._step_flush()

    def _flush_log(self) -> None:
        if self.random.random() < 0.05:
            self.disk.refuse_syncs = 1
        self.note("flush the log")
        self.life.begin_flush(timers=False, levels=False)
        self._step_flush()

    def _step_flush(self) -> None:
        if self.life.is_flushing():
            self.note("flush step")
            self.totals["failed syncs"] += not self.life.step_flush()

    def pass_session_time(self) -> None:
        self.note("session time")
        self.life.pass_session_time(self.random.choice((10, 100, 600)))

    def fill_disk(self) -> None:
        """The next writes, or the next syncs, are refused."""
        self.note("disk full")
        if self.random.random() < 0.5:
            self.disk.full_for = self.random.randint(1, 4)
        else:
            self.disk.refuse_syncs = self.random.randint(1, 3)

    def save_without_room(self) -> None:
        """Tables are saved while there is no room, and when there is again."""
        self.note("no room for saves")
        if self.harms is not None:
            save_without_room(self.life, self.disk, self.harms, self.truth.checks)

    def change_role(self) -> None:
        """Another broker takes over and gives back; or it goes on enqueueing meanwhile."""
        timers = self.life.timers
        self.totals["changes of role"] += 1
        if timers.should_running_dequeue:
            self.note("follow a master")
            with self.life.parts.door:
                timers.set_should_running_dequeue(False)
        elif self.random.random() < 0.5:
            self.note("the master goes on")
            if isinstance(timers, TimerMessageStore):
                with self.life.parts.door:
                    timers.follow_master(self.life.store.max_offset(TIMER_TOPIC, 0))
        else:
            self.note("be the master")
            with self.life.parts.door:
                timers.set_should_running_dequeue(True)

    def stop_entering(self) -> None:
        """Keep what comes out of the wheel or the slices, or let it in again."""
        config = self.life.parts.config
        stop = not config.flag("timerStopEnqueue")
        self.note("nothing enters" if stop else "everything enters")
        self.totals["holds"] += stop
        with self.life.parts.door:
            config.update(timerStopEnqueue=stop)

    def list_some(self) -> None:
        """Look at what waits."""
        self.note("list")
        check_listing(self.life, self.truth, self.random.choice((1, 7, 30, 100)))

    def count(self) -> None:
        self.note("count")
        check_counts(self.life, self.truth)

    def pull(self) -> None:
        """A consumer reads on from somewhere."""
        topic, queue_id = self.random.choice(TOPICS), self.random.randrange(QUEUES)
        self.note(f"pull {topic} {queue_id}")
        self.totals["pulled"] += len(
            self.peer.pull_all(topic, queue_id, self.random.randint(0, 20))
        )

    def note(self, what: str) -> None:
        self.trace.append(f"{self.clock.now_ms} {what}")
