"""How the rows of one task reach the brokers: checked, sent, and none forgotten.

An Arrow batch is encoded (``encoding.py``), becomes requests (``requests.py``), and these go
through the window (``window.py``). `Sender` judges what comes back. It counts what is stored, sends
again what fails for now, and ends the task for what no repetition can help. `Sender.finish` returns
only when every request is answered. Must not know Spark. Read on: ``send_errors.py`` for what is
tried again, ``invalid_rows.py`` for rows that cannot be messages.
"""

import logging
from collections import defaultdict
from collections.abc import Container, Iterable
from itertools import chain

import pyarrow as pa
from attrs import define, evolve

from rocketmq_py import MessageQueue, NoRouteError, RemotingException, RocketMQError
from rocketmq_py.clock import monotonic, wall_ms
from rocketmq_py.raw import MessageIds, QueueAccess, RunOutcome, SendOutcome
from spark_connector.errors import InvalidRowError, WeaklyStoredError
from spark_connector.options.write_options import WriteOptions
from spark_connector.servers.access import is_transient
from spark_connector.servers.task_log import Progress
from spark_connector.writing.encoding import Encoded, Encoder
from spark_connector.writing.invalid_rows import identities, redirected
from spark_connector.writing.key_hash import HASH_OF
from spark_connector.writing.queue_choice import QueueChoice
from spark_connector.writing.requests import Request, requests
from spark_connector.writing.row_answers import Answers
from spark_connector.writing.send_errors import (
    Patience,
    explained,
    given_up,
    is_permanent,
    plain,
    weakness_of,
)
from spark_connector.writing.window import Window

_log = logging.getLogger("spark_connector")

SHOWN_PROBLEMS = 3


@define
class Report:
    """What one task did: rows stored and left out, and the error that repeating cannot help."""

    stored: int = 0
    skipped: int = 0
    redirected: int = 0
    failure: RocketMQError | None = None


class Sender:
    """Sends the Arrow batches of one task. One thread uses it, once.

    ``fixed_queues``: the queues of topics that keys are spread over, the same for every
    task of the write. ``planned``: the name server answered when the write was planned, and knew
    the option ``topic``, if given. ``dedupe``: beginning of generated DEDUPE_ID values, None for
    none. ``partition``: the number of the task's. ``answers`` is told about every row; its user
    settles each batch before the next one.
    """

    def __init__(
        self,
        access: QueueAccess,
        options: WriteOptions,
        meanings: dict[str, str],
        *,
        fixed_queues: dict[str, tuple[MessageQueue, ...]] | None = None,
        planned: bool = False,
        dedupe: str | None = None,
        partition: int | None = None,
        answers: Answers | None = None,
    ) -> None:
        self._answers = answers
        self._where = "" if partition is None else f"partition {partition}, "
        self._options = options
        self._ids = MessageIds()
        self._meanings = meanings
        self._encoder = Encoder(options, meanings, self._ids)
        self._patience = Patience.of(options)
        expected = options.topic if planned else None
        self._queues = QueueChoice(
            access,
            self._patience,
            fixed_queues or {},
            planned,
            expected,
            unknown_is_invalid=options.on_invalid_row != "fail",
            hash_of=HASH_OF[options.route_by_key],
        )
        self._window = Window(access, self._queues, options)
        self._dedupe = dedupe
        self._rows_seen = 0
        self._transient: Exception | None = None
        self._is_told = False
        self._progress = Progress("writing", "rows not answered yet", options.progress_interval_ms)
        self.report = Report()

    # --- a batch ---------------------------------------------------------------------------------

    def send(self, batch: pa.RecordBatch) -> bool:
        """Check all rows of a batch, then send them; False when the task should stop.

        Raises the error of a server that did not take a message, tries included. Of rows that
        fail for now some may still rest when this returns.
        """
        if self.report.failure is not None:
            return False
        encoded = self._encoder.encode(
            batch, wall_ms(), dedupe=self._dedupe, first_row=self._rows_seen
        )
        self._rows_seen += batch.num_rows
        try:
            places = self._queues.places_of(encoded)
            encoded = evolve(encoded, problems=encoded.problems | places.missing)
            instead = self._instead_of_invalid(batch, encoded) if encoded.problems else ()
        except (NoRouteError, InvalidRowError) as error:
            self.report.failure = plain(error)
            return self.settle()
        finally:
            if self._answers is not None:
                self._answers.begin(encoded)
        for request in chain(instead, requests(encoded, places, self._options)):
            for answered in self._window.put(request):
                self._judge(*answered)
                if self._has_ended:
                    return self.settle()
        return True

    def finish(self) -> Report:
        """Wait until every request is answered; raise what kept one from being stored."""
        self.settle()
        return self.report

    def settle(self) -> bool:
        """Wait for all answers, as `finish` does; False when the task should stop."""
        if self._has_ended:
            self._window.forget_resting()
        for answered in self._window.drain():
            self._judge(*answered)
        if self._transient is not None:
            raise self._transient
        return self.report.failure is None

    def _instead_of_invalid(self, batch: pa.RecordBatch, encoded: Encoded) -> Iterable[Request]:
        """Do with invalid rows what ``onInvalidRow`` says; raises `InvalidRowError` to send none.

        Gives the requests that store them in ``invalidRowTopic``, and none where they are skipped.
        """
        problems, options = encoded.problems, self._options
        rows = sorted(problems)
        if options.on_invalid_row == "topic":
            topic = options.invalid_row_topic or ""
            self._queues.queues_of(topic)
            return redirected(batch, self._meanings, encoded, self._ids, topic)
        if options.on_invalid_row == "skip":
            self.report.skipped += len(rows)
            shown = self._shown(batch, encoded, rows[:1])
            _log.warning("%d invalid rows skipped, the first one: %s", len(rows), shown)
            return ()
        shown = self._shown(batch, encoded, rows[:SHOWN_PROBLEMS])
        raise InvalidRowError(
            f"{len(rows)} of {len(encoded)} rows cannot be messages ({shown}); none of this "
            "Arrow batch was sent; onInvalidRow=skip leaves such rows out",
            row=rows[0],
        )

    def _shown(self, batch: pa.RecordBatch, encoded: Encoded, rows: list[int]) -> str:
        """Say where some rows are in the task, by what a user may know them, and what is wrong."""
        first = self._rows_seen - len(encoded)
        known_as = identities(batch, self._meanings, rows)
        return "; ".join(
            f"{self._where}row {first + row}: {encoded.problems[row]}{identity}"
            for row, identity in zip(rows, known_as, strict=True)
        )

    @property
    def _has_ended(self) -> bool:
        """Whether something failed that is not tried again: what is in flight is waited for."""
        return self._transient is not None or self.report.failure is not None

    # --- answers ---------------------------------------------------------------------------------

    def _judge(self, request: Request, outcome: RunOutcome) -> None:
        """Count the rows that are stored; have the others sent again, or note why not."""
        wrong: dict[int, Exception] = {}
        for number in outcome.unusual:
            error = self._error_of(outcome[number])
            if error is not None:
                wrong[number] = error
        if len(wrong) < len(request):
            self._note_stored(request, outcome, wrong)
        if wrong:
            alike: dict[object, list[int]] = defaultdict(list)
            for number, error in wrong.items():
                alike[type(error), getattr(error, "response_code", None)].append(number)
            for numbers in alike.values():
                self._take_back(request.part(numbers), wrong[numbers[0]])
        elif not self._has_ended:
            self._window.go_on(request)

    def _error_of(self, outcome: SendOutcome) -> Exception | None:
        """Return why a message counts as not stored as it should be."""
        if outcome.error is not None or self._options.accept_status == "stored":
            return outcome.error
        return weakness_of(outcome.result())

    def _note_stored(
        self, request: Request, outcome: RunOutcome, wrong: Container[int] = ()
    ) -> None:
        numbers = [number for number in range(len(request)) if number not in wrong]
        count = len(request.rows) if request.batch else len(numbers)
        self.report.stored += count
        self.report.redirected += count if request.redirected else 0
        if self._answers is not None:
            for number in numbers:
                answer, rows = outcome[number].result(), request.rows_of(number)
                self._answers.stored(rows, answer, redirected=request.redirected)
        left = self._rows_seen - self.report.skipped - self.report.stored
        self._progress.add(count, left)

    def _take_back(self, request: Request, error: Exception) -> None:
        """Have messages that failed in one way sent again, or note why not."""
        count = len(request.rows)
        if is_permanent(error):
            if isinstance(error, WeaklyStoredError):
                self.report.stored += count
            why = explained(error, request.topic, count, request.properties[0])
            self.report.failure = self.report.failure or plain(why)
            self._window.forget_resting()
        elif not self._has_ended:
            self._try_again(request, error)

    def _try_again(self, request: Request, error: Exception) -> None:
        """Let a request rest; without patience left the task has failed.

        What one broker did not take goes to another one without a rest, ``sendRetries`` times.
        """
        now = monotonic()
        request.attempt += 1
        tries, retries = request.attempt, self._options.send_retries
        again = self._patience.next_try(
            tries, request.first_at, request.sent_at, now, lasting=is_transient(error)
        )
        if again is None:
            what = f"topic {request.topic}, queue {request.queue}"
            waited_s = now - request.first_at
            self._transient = given_up(what, request.topic, tries, waited_s, error)
            self._window.forget_resting()
            return
        if tries == retries + 1 and not self._is_told:
            self._is_told = True
            _log.warning("topic %s: not stored yet, trying again: %s", request.topic, error)
        if isinstance(error, RemotingException):
            self._queues.look_again(request.topic)  # the broker may have moved
            is_free = request.lane is None and self._queues.has_several_brokers(request.topic)
            if is_free and tries <= retries:
                again = now
        self._window.rest(request, again)
