"""Every option of the data source: its name, its uses, its values, its default and its meaning.

They stand here and nowhere else. The classes `ReadOptions`, `WriteOptions` and `Connection` have a
field for an option under its name in snake case, errors say what the table says, and users see it
by ``python -m spark_connector options`` and in ``README.md``. To add an option, write it into the
table and give the class that needs it a field. Must not know what is done with an option. Read on:
``parsing.py`` for how a user's options are taken.
"""

import json
import re
from collections.abc import Iterator

from attrs import frozen

from spark_connector.errors import OptionError
from spark_connector.options.instants import instant_ms

USES = {
    "B": "batch reads",
    "S": "streaming reads",
    "W": "writes",
    "T": "reads of pending timers",
}

TABLE = """\
nameServer (BSWT; text) = unset
    Addresses of the name servers, `host:port;host:port`. Required, but of timers only where their
    topic is read. The driver and the executors must reach them.
accessKey (BSWT; text) = unset
    Access key, for a cluster that checks keys. Goes with `secretKey`. Both travel inside the tasks;
    `credentialsEnv` and `credentialsFile` are safer.
secretKey (BSWT; text) = unset
    Secret of `accessKey`. It never shows in errors or logs.
securityToken (BSWT; text) = unset
    Token that belongs to a temporary `accessKey`.
credentialsEnv (BSWT; text) = unset
    A `PREFIX`. Each worker reads its environment variables `PREFIX_ACCESS_KEY`, `PREFIX_SECRET_KEY`
    and `PREFIX_SECURITY_TOKEN` once.
credentialsFile (BSWT; text) = unset
    JSON file with `accessKey`, `secretKey` and `securityToken`. It is looked for among `SparkFiles`
    first. It is read again when it changes, so keys can be replaced while a stream runs.
addressMap (BSWT; text) = unset
    `advertised:port=reachable:port,...`: addresses to connect to instead of those that brokers
    advertise. For port forwards and NAT.
namespace (BSW; text) = unset
    Namespace of all topics and groups. It is put before their names as `namespace%topic`, and taken
    off what is read. 1 to 64 letters, digits, `_` and `-`.
tls (BSWT; true, false) = false
    Whether to connect by TLS. The server's certificate must be signed by an authority of `tlsCa`,
    or of this machine without it, and be for the host that is connected to.
tlsCa (BSWT; text) = unset
    PEM file of the authorities that sign the servers' certificates. It is looked for among
    `SparkFiles` first. Needs `tls=true`.
tlsCert (BSWT; text) = unset
    PEM file of the client's own certificate. Goes with `tlsKey`.
tlsKey (BSWT; text) = unset
    PEM file of the key of `tlsCert`.
progressIntervalMs (BSW; 0 or more) = 30000
    How often, in ms, a long task logs its progress, as a warning. 0: never.
timers (T; pending) = unset
    `pending`: read the messages that wait for their time, in place of a topic: from running brokers
    from 5.0 on (`nameServer`: their timer topic is pulled), from a running embedded broker
    (`controlAddress`) or from the files of any broker (`storeDirectory`). Give one of the three.
controlAddress (T; text) = unset
    `host:port` of the control port of embedded brokers (`--control-port`). The driver and the
    executors must reach it. All brokers behind it are read, unless `brokerName` names one.
controlToken (T; text) = unset
    Token of the control port. It never shows in errors or logs.
controlTimeoutMs (T; 1 or more) = 30000
    How many ms the control port may take for one page. Then it is asked again.
storeDirectory (T; text) = unset
    Directory of a store that a RocketMQ broker or an embedded one wrote. It is only read, in one
    task, and must lie where the executors run. They need the whole package, not the zip.
brokerName (T; text) = unset
    With `nameServer` and `controlAddress`: only this broker. With `storeDirectory`: the broker's
    name, which the files do not tell and recall handles need. Without it these are null.
asOf (T; moment) = unset
    The time from which `lateness_ms` and `age_ms` are counted. Unset: the broker's time, or for
    files that of the driver, when the query is planned.
subscribe (BS; text) = unset
    Topics to read, separated by commas. Give exactly one of `subscribe`, `subscribePattern` and
    `assign`.
subscribePattern (BS; text) = unset
    Regular expression that the whole name of a topic must match. A stream also reads matching
    topics that are created later. Retry and dead letter topics never match.
assign (BS; JSON) = unset
    Single queues to read, `{"topic":{"broker-a":[0,1]}}`.
deadLettersOf (BS; text) = unset
    In place of a topic: consumer groups, separated by commas, whose dead letters are read. A group
    that has none yet has no such topic, and is read as empty.
retriesOf (BS; text) = unset
    The same for the messages that came to these groups again, those that still wait not among them.
subExpression (BS; text) = unset
    Tags to read, `TagA || TagB`. The broker leaves out all other messages. Unset: all messages.
sqlExpression (BS; text) = unset
    SQL92 condition on user properties. The broker checks it, and needs `enablePropertyFilter=true`
    for that. Not together with `subExpression`.
startingOffsets (BS; text) = unset
    Where to begin: `earliest`, `latest` (streams only), `group`, `group:earliest`, `group:latest`,
    or offsets, `{"topic":{"broker-a":{"0":23}}}` (-2: earliest, -1: latest). Unset: batches begin
    at the earliest offset, streams at the latest. A stream with a checkpoint goes on from the
    checkpoint. What a stream finds later begins at its first message since the stream began, or
    since its `startingTimestamp`; at its earliest one unless the stream began so.
endingOffsets (B; text) = latest
    Where a batch ends: `latest`, or offsets as in `startingOffsets`. The end itself is not read.
    `latest` means the latest offset when the query is planned.
startingTimestamp (BS; moment) = unset
    Begin at the first message that was stored at or after this moment. Epoch ms, or ISO 8601 with a
    time zone. Wins over `startingOffsets`.
endingTimestamp (B; moment) = unset
    End before the first message that was stored at or after this moment. Written like
    `startingTimestamp`. Wins over `endingOffsets`.
startingOffsetsByTimestamp (BS; JSON) = unset
    A moment in epoch ms for each queue, `{"topic":{"broker-a":{"0":1767225600000}}}`. Queues
    without one begin at the earliest offset (batches) or at the latest (streams).
endingOffsetsByTimestamp (B; JSON) = unset
    The same for the end of a batch. Queues without a moment end at their latest offset.
startingOffsetsByTimestampStrategy (BS; error, latest) = error
    What to do when no message is as new as the starting moment. `error`: fail. `latest`: begin at
    the end.
failOnDataLoss (BST; true, false) = true
    Whether the query fails when offsets are gone: they were deleted because of age, the topic was
    created anew, or a queue is missing for long. With `false` the query goes on behind them and
    logs a warning.
maxOffsetsPerTrigger (S; 1 or more) = unset
    Most offsets of one micro-batch. They are shared among the queues by their backlog, at least one
    for each; with fewer offsets than queues these take turns. Messages that a filter leaves out
    count, too.
maxBytesPerTrigger (S; 1 or more) = unset
    About how many stored bytes one micro-batch may have. The size of a message is estimated from a
    sample of each queue.
maxFetchTimeMs (S; 1 or more) = unset
    About how many ms the offsets of one micro-batch may take, from the choice of its end to the
    question for the next one. The first batch has at most 1000 offsets, a later one at most twice
    as many as the one before, and fewer when that one took too long. What every batch takes does
    not count, such as the wait for a trigger.
minOffsetsPerTrigger (S; 1 or more) = unset
    A micro-batch waits until there are so many new offsets, but no longer than `maxTriggerDelay`.
maxTriggerDelay (S; duration) = 15m
    How long `minOffsetsPerTrigger` may make a micro-batch wait: `500ms`, `30s`, `15m`, `2h`.
minPartitions (BS; 1 or more) = unset
    Fewest tasks, about: large queues are cut until there are so many. Unset: as `maxPartitions`
    says.
maxPartitions (BS; 1 or more) = unset
    Most tasks. Tasks are about equal in bytes: small queues share one, a large queue is cut. Unset:
    one for each core, fewer when a task had less than 8 MiB; up to four for each core when each has
    32 MiB or more, and more than that when one had over 512 MiB. The cores are the cluster's when
    `register(spark)` was called, else those of the driver's machine.
maxRecordsPerPartition (BS; 1 or more) = unset
    Most offsets of one task, however many tasks that makes. With small tasks a repeated task
    repeats little.
groupId (BST; text) = unset
    Group whose offsets `startingOffsets=group` begins at. A stream also stores its progress under
    this group. Messages are asked for in its name, or without it in that of `TOOLS_CONSUMER`, which
    no one has to create. Under access control the account needs the right `SUB` for that group.
commitOffsets (S; true, false) = unset
    Whether a stream stores its progress as offsets of `groupId`, for dashboards. Unset: yes when
    `groupId` is given. A restarted stream goes on from its checkpoint, not from these offsets.
fetchOffset.numRetries (BSWT; 0 or more) = 3
    How often a failed question about topics, bounds, offsets and timers is repeated.
fetchOffset.retryIntervalMs (BSWT; 0 or more) = 1000
    Pause in ms before each of these repetitions.
offsetPollIntervalMs (S; 1 or more) = 100
    Shortest time in ms between two questions of a stream for new messages. While there are none it
    grows to a second.
routeRefreshMs (S; 1 or more) = 30000
    How often, in ms, a stream looks for new topics, brokers and queues.
missingQueueGraceMs (BST; 0 or more) = 600000
    How many ms a read waits for queues that are away, before that counts as data loss.
requiredQueues (BS; text) = unset
    How many queues a topic must have, for brokers that no route remembers: a number for each topic,
    or `{"topic":8}`. A read waits for fewer queues as for one that is away. A stream that runs
    reads the others meanwhile.
requiredBrokers (BST; text) = unset
    Which brokers a topic must have: their names, separated by commas, for each topic, or
    `{"topic":["broker-a"]}`. A read waits for a broker without queues as for a queue that is away.
    A stream that runs reads the others meanwhile.
pullBatchSize (BST; 1 to 2147483647) = 1024
    Most messages that one request asks for. Brokers give fewer: 32 by default.
pullTimeoutMs (BST; 1 or more) = 3000
    How many ms one request may take. Then it is made again.
pullDeadlineMs (BST; 1 or more) = 120000
    A task fails when it has made no progress for so many ms.
prefetch (BST; 1 to 1024) = 4
    Requests in flight in each task, more where a broker gives few messages for each. More of them
    hide the network's delay, and take more memory.
arrowBatchRows (BST; 1 to 2147483647) = 4000
    Most rows of one Arrow batch that is handed to Spark.
arrowBatchBytes (BST; 1 to 1073741824) = 8388608
    About how many bytes one such batch may have. The memory of a task grows with it.
mode (BS; FAILFAST, PERMISSIVE, DROPMALFORMED) = FAILFAST
    What to do with a message that cannot be decoded. `FAILFAST`: the task fails. `PERMISSIVE`: it
    becomes a row with null for what cannot be read. `DROPMALFORMED`: it is left out. The last two
    log how many there are, and where.
columnNameOfCorruptRecord (BS; text) = _corrupt_record
    Name of the column that shows such a message under `mode=PERMISSIVE`, for whoever asks for it:
    its stored bytes, or as `string` what is wrong with it. Null for good messages.
columns (BST; text) = unset
    Columns to read instead of the default ones, `topic,offset,body,property.region`. Fewer columns
    are faster. `property.NAME` is a field of a column `property`. `.schema(...)` does the same and
    also sets types.
includeHeaders (BS; true, false) = false
    Whether to add the column `properties`. It costs more than any other column.
bodyCharsetErrors (BS; replace, strict) = replace
    For a body that is read as text. `replace`: bytes that are not UTF-8 become U+FFFD. `strict`:
    they fail the task.
readFromSlave (BST; true, false) = true
    Whether to read old messages from a slave when the broker suggests it.
checkCrc (BS; true, false) = false
    Whether each body is checked against its stored checksum. A wrong one fails the task.
pushFilters (BT; true, false) = false
    Whether filters on `topic`, `queue_id`, `offset`, `store_timestamp` and `tags`, of timers on
    `topic` and `due_at`, reduce what is read. Needs
    `spark.sql.python.filterPushdown.enabled=true`; without that every read fails.
topic (BSWT; text) = unset
    Reads: the same as `subscribe`. Timers: only those that will go to this topic. Writes: the topic
    of all rows. It wins over a column `topic`.
tags (W; text) = unset
    Tag of rows whose column `tags` is null or missing.
delayMs (W; 0 or more) = unset
    Delay in ms for rows that have no delay of their own. The broker counts it from when the message
    arrives. Give at most one of `delayMs`, `deliverAt` and `delayLevel`.
deliverAt (W; moment) = unset
    Moment before which rows without a delay of their own are not delivered. Epoch ms, or ISO 8601
    with a time zone.
delayLevel (W; 1 to 18) = unset
    Delay level for rows without a delay of their own: 1 (1 s) to 18 (2 h). Brokers of version 4.x
    know levels, too.
delayConflict (W; error, first) = error
    What to do with a row that has several delay columns. `error`: the row is invalid. `first`: the
    first one counts, in the order `deliver_at`, `start_deliver_time`, `delay_ms`, `delay_level`.
delayPolicy (W; strict, warn, as_java) = strict
    What to do with a delay that will not be kept: a `delay_level` that is negative or above 18, a
    time in seconds in place of milliseconds, a property whose name only looks like a delay
    (`TIMER_DELAY_SECS`), and for a broker before 5.0, which would deliver at once, each delay but a
    level. `strict`: the row is invalid; what only the broker's version tells fails the write.
    `warn`: a line in the log of the worker for each such row, which is sent. `as_java`: it is sent.
maxDelayMs (W; 0 or more) = 259200000
    Longest delay of a row. A row with a longer one is invalid, before anything is sent. The default
    is three days, as in brokers. Raise it together with the broker's `timerMaxDelaySec`. 0: no
    limit.
translateStartDeliverTime (W; auto, always, never) = auto
    Whether `start_deliver_time` is also stored as the property by which 5.x brokers delay messages.
    `auto` and `always`: yes. `never`: no, for Aliyun ONS.
sendTimeoutMs (W; 1 or more) = 3000
    How many ms one send may take. Then it counts as failed and is made again.
sendRetries (W; 0 or more) = 2
    How often a failed send is repeated in any case, at another broker if there is one.
sendDeadlineMs (W; 0 or more) = 120000
    How long, in ms, a failed send is repeated while brokers restart, are away or are busy. Then the
    task fails, and Spark repeats the task. 0: only `sendRetries` counts.
maxInFlight (W; 1 to 65535) = 256
    Most sends of a task that wait for an answer at the same time.
batchSend (W; true, false) = true
    Whether one request carries many rows without a delay. `false`: one request for each row.
batchBytes (W; 1024 to 4194304) = 262144
    Most bytes of one such request. It must be below the largest message that the broker takes.
compression (W; none, zlib, lz4, zstd) = none
    How large bodies are compressed: `none`, `zlib`, `lz4` or `zstd`. `lz4` and `zstd` need the
    extra of that name. Compressed rows are sent one by one.
compressOver (W; 0 or more) = 4096
    Only bodies of more than so many bytes are compressed.
onInvalidRow (W; fail, skip, topic) = fail
    What to do with rows that cannot be messages, or whose topic does not exist. `fail`: the write
    fails before anything of their Arrow batch is sent. `skip`: they are left out and counted.
    `topic`: they are sent to `invalidRowTopic`.
invalidRowTopic (W; text) = unset
    Topic for invalid rows under `onInvalidRow=topic`. The property `INVALID_REASON` says what is
    wrong with a row.
extraColumns (W; error, properties, ignore) = error
    What to do with columns that a write does not know. `error`: fail. `properties`: store them as
    properties under their names. `ignore`: leave them out.
reservedProperties (W; error, drop) = error
    What to do with names in `properties` that RocketMQ reserves for itself or for delays.
    `error`: the row is invalid. `drop`: such properties are left out.
usePartition (W; true, false) = false
    Whether a column `partition` sets the queue, as `queue_id` does.
routeByKey (W; none, rocketmq, kafka) = none
    Whether the column `keys` (or `key`) chooses the queue: rows with the same key go to the same
    queue, those without one to any. `rocketmq`: by the hash that `sharding_key` and the Java
    clients use. `kafka`: by the hash of Kafka's clients. A `queue_id` wins.
acceptStatus (W; SEND_OK, stored) = SEND_OK
    Which answers of a broker count as success. `SEND_OK`: only this one. `stored`: also answers
    that say a message is stored, but not yet flushed or copied to a slave. A master without its
    slave gives such an answer to every send.
clockToleranceMs (W; 0 or more) = 60000
    How many ms the clock of a worker may be wrong when `deliver_at` is compared with `maxDelayMs`.
dedupe (W; auto, none) = unset
    `auto`: each row of a streaming write, and of a batch write with `replayGuard`, gets a property
    `DEDUPE_ID`, and a repeated batch gives its rows the same ids again. `none`: no ids. Unset:
    `auto` for these, `none` for other batches.
replayGuard (W; text) = unset
    Group in which a stream, or the batch writes of one `foreachBatch`, mark the last batch that was
    written whole, so that this batch is not sent again after a crash. Each query and each write
    needs a group of its own. Needs the option `topic`, and for batch writes `batchId`.
batchId (W; 0 to 4294967294) = unset
    Number of the batch that a batch write with `replayGuard` is: the second argument of the
    function of `foreachBatch`. Each write has the number of the one before plus one, or the same
    number when it is repeated.
replayGuardTakeOver (W; true, false) = false
    Whether a query may take over the `replayGuard` group of another query.
"""
"""An option begins a line: name (uses; values) = default; below it, what it means for users."""

_HEAD = re.compile(r"(?P<name>\S+) \((?P<uses>[BSTW]+); (?P<values>.+)\) = (?P<default>.+)")
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

BY_FIELD = {option.field: option for option in OPTIONS.values()}
"""Every option by the name that it has in a class of options."""

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
