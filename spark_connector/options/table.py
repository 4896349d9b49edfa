"""Every option of the data source: its name, its uses, its values, its default and its meaning.

They stand here and nowhere else. The classes `ReadOptions`, `WriteOptions` and `Connection` have a
field for an option under its name in snake case, errors say what the table says, and users see it
by ``python -m spark_connector options`` and in ``README.md``. To add an option, write it into the
table and give the class that needs it a field. Must not know what is done with an option. Read on:
``parsing.py`` for how a user's options are taken.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from attrs import frozen

from spark_connector.errors import OptionError
from spark_connector.options.instants import instant_ms

__all__ = ["BATCH_BYTES_MOST", "OPTIONS", "USES", "Option", "as_markdown", "as_text"]

USES = {"B": "batch reads", "S": "streaming reads", "W": "writes"}

TABLE = """\
nameServer (BSW; text) = unset
    Addresses of the name servers, `host:port;host:port`; needed, and reachable from driver and
    executors.
accessKey (BSW; text) = unset
    Access key of a cluster that checks them; goes with `secretKey`, which travels in the task, so
    `credentialsEnv` or `credentialsFile` are safer.
secretKey (BSW; text) = unset
    Secret of `accessKey`; never shown in errors and logs.
securityToken (BSW; text) = unset
    Token of a temporary `accessKey`.
credentialsEnv (BSW; text) = unset
    `PREFIX`: each worker reads its environment variables `PREFIX_ACCESS_KEY`, `PREFIX_SECRET_KEY`
    and `PREFIX_SECURITY_TOKEN`, once.
credentialsFile (BSW; text) = unset
    JSON file with `accessKey`, `secretKey` and `securityToken`, looked for among `SparkFiles` first
    and read again when it changes, so keys may rotate under a stream.
addressMap (BSW; text) = unset
    `advertised:port=reachable:port,...`: where to connect instead of the addresses that brokers
    advertise, for port forwards and NAT.
namespace (BSW; text) = unset
    Put before names of topics and groups, as `namespace%topic`, and taken off what is read: 1 to 64
    letters, digits, `_` and `-`.
tls (BSW; true, false) = false
    Connections by TLS; this client has none yet and says so when it connects.
tlsCa (BSW; text) = unset
    PEM file of the authorities that sign the servers' certificates, looked for among `SparkFiles`
    first; needs `tls`.
tlsCert (BSW; text) = unset
    PEM file of the certificate that the client shows; goes with `tlsKey`.
tlsKey (BSW; text) = unset
    PEM file of the key of `tlsCert`.
progressIntervalMs (BSW; 0 or more) = 30000
    Every so many ms a long task logs, as a warning, how far it is; 0: never.
subscribe (BS; text) = unset
    Topics to read, `a,b`; give one of this, `subscribePattern` and `assign`.
subscribePattern (BS; text) = unset
    Regular expression that whole topic names must match; a stream takes up new topics that match,
    retry and dead letter topics are left out.
assign (BS; JSON) = unset
    Single queues to read, `{"topic":{"broker-a":[0,1]}}`.
subExpression (BS; text) = unset
    Tags to read, `TagA || TagB`; the broker leaves out the rest. Unset reads all.
sqlExpression (BS; text) = unset
    SQL92 condition on user properties, checked by the broker, which must have
    `enablePropertyFilter=true`; not together with `subExpression`.
startingOffsets (BS; text) = unset
    Where to begin: `earliest`, `latest` (streams only), `group`, `group:earliest`, `group:latest`,
    or offsets, `{"topic":{"broker-a":{"0":23}}}` (-2 earliest, -1 latest). Unset: batches begin at
    the earliest, streams at the latest; a checkpoint wins over it.
endingOffsets (B; text) = latest
    Where a batch ends, not included: `latest`, or offsets as in `startingOffsets`. `latest` is that
    of the moment of planning.
startingTimestamp (BS; moment) = unset
    Begin at the first message stored at or after this moment: epoch ms, or ISO 8601 with a zone;
    wins over `startingOffsets`.
endingTimestamp (B; moment) = unset
    End before the first message stored at or after this moment; written like `startingTimestamp`,
    wins over `endingOffsets`.
startingOffsetsByTimestamp (BS; JSON) = unset
    A moment in epoch ms for each queue, `{"topic":{"broker-a":{"0":1767225600000}}}`; queues
    without one begin at the earliest (batches) or latest (streams).
endingOffsetsByTimestamp (B; JSON) = unset
    The same for the end of a batch; queues without a moment end at their latest.
startingOffsetsByTimestampStrategy (BS; error, latest) = error
    When no message is as new as the moment asked for: `error`, or `latest` to begin at the end.
failOnDataLoss (BS; true, false) = true
    Whether offsets that are gone (aged out, topic made anew, queue missing for long) fail the
    query; `false` goes on behind them and logs a warning.
maxOffsetsPerTrigger (S; 1 or more) = unset
    At most so many offsets per micro-batch, split over the queues by their backlog; filtered
    messages count, too.
maxBytesPerTrigger (S; 1 or more) = unset
    About so many stored bytes per micro-batch at most, reckoned with the mean size of a sample.
minOffsetsPerTrigger (S; 1 or more) = unset
    Wait until so many offsets are new before a micro-batch begins, but no longer than
    `maxTriggerDelay`.
maxTriggerDelay (S; duration) = 15m
    How long `minOffsetsPerTrigger` may hold news back: `500ms`, `30s`, `15m`, `2h`.
minPartitions (BS; 1 or more) = unset
    Cut the queues into about so many tasks; unset means one task per queue with news. The number of
    cores is a good value.
maxRecordsPerPartition (BS; 1 or more) = unset
    No task reads more offsets than this, so that a repeated one repeats little.
groupId (BS; text) = unset
    Group whose offsets `startingOffsets=group` takes, and to which a stream tells how far it is;
    reading itself needs none.
commitOffsets (S; true, false) = unset
    Whether a stream stores its progress as offsets of `groupId`, for dashboards; unset: when
    `groupId` is given. The checkpoint decides all the same.
fetchOffset.numRetries (BS; 0 or more) = 3
    How often a question about topics, bounds and offsets is repeated when the answer fails.
fetchOffset.retryIntervalMs (BS; 0 or more) = 1000
    Pause in ms before each of these repetitions.
offsetPollIntervalMs (S; 1 or more) = 100
    A stream asks brokers for news at most every so many ms, and up to every second while there is
    none.
routeRefreshMs (S; 1 or more) = 30000
    A stream looks for new topics, brokers and queues every so many ms.
missingQueueGraceMs (S; 0 or more) = 600000
    How many ms a queue that a stream reads may be missing before that counts as data loss.
pullBatchSize (BS; 1 to 2147483647) = 1024
    Most messages that one request asks for; brokers cap it, at 32 by default.
pullTimeoutMs (BS; 1 or more) = 3000
    How many ms one request may take; then it is made again.
pullDeadlineMs (BS; 1 or more) = 120000
    A task fails when it made no progress for so many ms.
prefetch (BS; 1 to 1024) = 4
    Requests in flight per task: more hide the time on the way, and take more memory.
arrowBatchRows (BS; 1 to 2147483647) = 4000
    Most rows of one Arrow batch handed to Spark.
arrowBatchBytes (BS; 1 to 1073741824) = 8388608
    About how many bytes one such batch may have; memory of a task grows with it.
columns (BS; text) = unset
    Columns to read instead of the default ones, `topic,offset,body,property.region`; fewer are
    faster. `.schema(...)` says the same with types.
includeHeaders (BS; true, false) = false
    Whether the column `properties` is added, the dearest one.
bodyCharsetErrors (BS; replace, strict) = replace
    For a body read as text: bytes that are no UTF-8 become U+FFFD (`replace`) or fail the task
    (`strict`).
readFromSlave (BS; true, false) = true
    Whether pulls follow the broker's hint to read old messages from a slave.
checkCrc (BS; true, false) = false
    Whether each body is checked against its stored checksum; a wrong one fails the task.
pushFilters (B; true, false) = false
    Whether filters on `topic`, `queue_id`, `offset`, `store_timestamp` and `tags` narrow what is
    pulled; needs `spark.sql.python.filterPushdown.enabled=true`, else every read fails.
topic (BSW; text) = unset
    Reads: the same as `subscribe`. Writes: the topic of all rows, which wins over a column `topic`.
tags (W; text) = unset
    Tag of rows whose column `tags` is null or missing.
delayMs (W; 0 or more) = unset
    Delay in ms of rows without a delay of their own, counted by the broker from arrival; at most
    one of this, `deliverAt` and `delayLevel`.
deliverAt (W; moment) = unset
    Moment before which such rows are not delivered: epoch ms, or ISO 8601 with a zone.
delayLevel (W; 1 to 18) = unset
    Delay level of such rows, 1 to 18 (1 s to 2 h), which 4.x brokers know, too.
delayConflict (W; error, first) = error
    When a row has several delay columns: `error` makes it an invalid row, `first` takes the first
    of `deliver_at`, `start_deliver_time`, `delay_ms`, `delay_level`.
maxDelayMs (W; 0 or more) = 259200000
    A row further away than so many ms is invalid before anything is sent (three days by default, as
    brokers have); raise it with `timerMaxDelaySec`, 0: no limit here.
translateStartDeliverTime (W; auto, always, never) = auto
    Whether `start_deliver_time` is also stored as the property that 5.x brokers delay by; `never`
    leaves it as it is, for Aliyun ONS. `auto` and `always` do the same.
sendTimeoutMs (W; 1 or more) = 3000
    How many ms one send may take; then it counts as failed and is made again.
sendRetries (W; 0 or more) = 2
    How often a failed send is repeated in any case, at another broker if there is one.
sendDeadlineMs (W; 0 or more) = 120000
    For how many ms after its first try a send is tried again while brokers restart, are away or are
    busy; then the task fails, and Spark repeats it. 0: only `sendRetries`.
maxInFlight (W; 1 to 65535) = 256
    Most sends of a task that wait for an answer.
batchSend (W; true, false) = true
    Whether rows without delay travel many in one request; `false` sends each alone.
batchBytes (W; 1024 to 4194304) = 1048576
    Most bytes of one such request; must be under the broker's limit for messages.
compression (W; none, zlib, lz4, zstd) = none
    How large bodies are compressed: `zlib`, `lz4`, `zstd` (these two need the extra of their name),
    or not at all. Compressed rows are sent one by one.
compressOver (W; 0 or more) = 4096
    Only bodies over so many bytes are compressed.
onInvalidRow (W; fail, skip, topic) = fail
    What happens to rows that cannot be messages: `fail` the write before anything of their Arrow
    batch is sent, `skip` and count them, or send them to `topic` `invalidRowTopic`.
invalidRowTopic (W; text) = unset
    Where invalid rows go under `onInvalidRow=topic`, with the reason as property `INVALID_REASON`.
extraColumns (W; error, properties, ignore) = error
    Columns that a write does not know: an `error`, stored as `properties` under their names, or
    `ignore`.
reservedProperties (W; error, drop) = error
    Names in `properties` that RocketMQ keeps for itself: an `error` (invalid row), or `drop` them.
usePartition (W; true, false) = false
    Whether a column `partition` fixes the queue, as `queue_id` does.
acceptStatus (W; SEND_OK, stored) = SEND_OK
    `stored` also takes answers that say a message is stored, but not yet flushed or copied to a
    slave; `SEND_OK` takes these for failures, as a master without its slave gives to every send.
clockToleranceMs (W; 0 or more) = 60000
    How many ms a worker's clock may be off when `deliver_at` is held against `maxDelayMs`.
dedupe (W; auto, none) = unset
    `auto` gives each row of a streaming write a property `DEDUPE_ID`, which a repeated batch gives
    again; `none` does not. Unset: `auto` for streams, `none` for batches.
replayGuard (W; text) = unset
    Group that marks which micro-batch was written last, so that a batch that was whole is not sent
    again after a crash; one for each query, needs option `topic`.
replayGuardTakeOver (W; true, false) = false
    Whether a query may take over a `replayGuard` group that another query used.
"""
"""An option begins a line: name (uses; values) = default; below it, what it means for users."""

_HEAD = re.compile(r"(?P<name>\S+) \((?P<uses>[BSW]+); (?P<values>.+)\) = (?P<default>.+)")
_NUMBERS = re.compile(r"(\d+) (?:to (\d+)|or more)")
_DURATION = re.compile(r"(\d{1,12})\s*(ms|s|m|min|h|d)?")
_UNITS_MS = {"s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
NUMBER_MOST = (1 << 63) - 1


@frozen
class Option:
    """One option. `uses` holds letters of `USES`, `values` says what it takes."""

    name: str
    uses: str
    values: str
    default: str | None
    meaning: str

    @property
    def field(self) -> str:
        """The name under which a class of options holds the value."""
        snake = re.sub(r"\.?([A-Z])", r"_\1", self.name.replace(".", "_")).lower()
        return f"{snake}_ms" if self.values in {"duration", "moment"} else snake

    @property
    def most(self) -> int | None:
        """The greatest number that is taken, None without a limit."""
        limits = _NUMBERS.fullmatch(self.values)
        return int(limits[2]) if limits and limits[2] else None

    def value(self, text: str) -> object:
        """Return the value that a text stands for; raises `OptionError` for what is not taken."""
        match self.values:
            case "text":
                return text
            case "JSON":
                return self._json(text)
            case "true, false":
                return self._word(text, "must be true or false") == "true"
            case "moment":
                return instant_ms(self.name, text)
            case "duration":
                return self._duration_ms(text)
            case _ if limits := _NUMBERS.fullmatch(self.values):
                return self._number(text, int(limits[1]), int(limits[2] or NUMBER_MOST))
            case _:
                return self._word(text, f"must be one of {self.values}")

    def _number(self, text: str, low: int, high: int) -> int:
        if re.fullmatch(r"-?[0-9]{1,19}", text) and low <= int(text) <= high:
            return int(text)
        limit = f"at least {low}" if high == NUMBER_MOST else self.values
        raise OptionError(f"option {self.name} = {text!r}: must be a whole number, {limit}")

    def _word(self, text: str, otherwise: str) -> str:
        for word in self.values.split(", "):
            if word.lower() == text.lower():
                return word
        raise OptionError(f"option {self.name} = {text!r}: {otherwise}")

    def _json(self, text: str) -> object:
        try:
            return json.loads(text)
        except ValueError as error:
            raise OptionError(f"option {self.name} is no JSON: {error}") from None

    def _duration_ms(self, text: str) -> int:
        match = _DURATION.fullmatch(text)
        if match is None:
            raise OptionError(f"option {self.name} = {text!r}: must look like 500ms, 30s, 15m, 2h")
        return int(match[1]) * _UNITS_MS.get(match[2] or "ms", 1)


def _options() -> Iterator[Option]:
    for entry in re.split(r"\n(?=\S)", TABLE.rstrip()):
        first, *lines = entry.split("\n")
        head = _HEAD.fullmatch(first)
        if head is None or not lines:
            raise ValueError(f"the table of options has a line that it should not have: {first}")
        default = None if head["default"] == "unset" else head["default"]
        meaning = " ".join(line.strip() for line in lines)
        yield Option(head["name"], head["uses"], head["values"], default, meaning)


OPTIONS = {option.name.lower(): option for option in _options()}
"""Every option by its lower-case name."""

BATCH_BYTES_MOST = OPTIONS["batchbytes"].most or 0
"""Bytes of a batch: to a broker it is one message, whose maxMessageSize has this default."""


def as_text() -> str:
    """Return the table for a terminal, with what the letters of the uses mean."""
    uses = "".join(f"{letter}: {use}\n" for letter, use in USES.items())
    return uses + re.sub(r"^(?=\S)", "\n", TABLE, flags=re.MULTILINE)


def as_markdown() -> str:
    """Return the table as Markdown, a row for each option."""
    lines = ["| Option | Use | Values | Default | Meaning |", "|---|---|---|---|---|"]
    for one in OPTIONS.values():
        default = "" if one.default is None else f"`{one.default}`"
        meaning = one.meaning.replace("|", "\\|")
        lines.append(f"| `{one.name}` | {one.uses} | {one.values} | {default} | {meaning} |")
    return "\n".join(lines) + "\n"
