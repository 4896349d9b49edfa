"""What each option of the data source does, in one sentence or two, for its users.

The words beside the table `OPTIONS` of ``options.py``, which has names, types and defaults; they
are shown by ``python -m spark_connector options`` and in ``README.md``. Must not know code.
"""

from __future__ import annotations

__all__ = ["MEANINGS"]

MEANINGS = {
    "nameServer": (
        "Addresses of the name servers, `host:port;host:port`; needed, and reachable from driver "
        "and executors."
    ),
    "accessKey": (
        "Access key of a cluster that checks them; goes with `secretKey`, which travels in the "
        "task, so `credentialsEnv` or `credentialsFile` are safer."
    ),
    "secretKey": "Secret of `accessKey`; never shown in errors and logs.",
    "securityToken": "Token of a temporary `accessKey`.",
    "credentialsEnv": (
        "`PREFIX`: each worker reads its environment variables `PREFIX_ACCESS_KEY`, "
        "`PREFIX_SECRET_KEY` and `PREFIX_SECURITY_TOKEN`, once."
    ),
    "credentialsFile": (
        "JSON file with `accessKey`, `secretKey` and `securityToken`, looked for among "
        "`SparkFiles` first and read again when it changes, so keys may rotate under a stream."
    ),
    "addressMap": (
        "`advertised:port=reachable:port,...`: where to connect instead of the addresses that "
        "brokers advertise, for port forwards and NAT."
    ),
    "namespace": (
        "Put before names of topics and groups, as `namespace%topic`, and taken off what is read: "
        "1 to 64 letters, digits, `_` and `-`."
    ),
    "tls": "Connections by TLS; this client has none yet and says so when it connects.",
    "tlsCa": (
        "PEM file of the authorities that sign the servers' certificates, looked for among "
        "`SparkFiles` first; needs `tls`."
    ),
    "tlsCert": "PEM file of the certificate that the client shows; goes with `tlsKey`.",
    "tlsKey": "PEM file of the key of `tlsCert`.",
    "progressIntervalMs": (
        "Every so many ms a long task logs, as a warning, how far it is; 0: never."
    ),
    "subscribe": "Topics to read, `a,b`; give one of this, `subscribePattern` and `assign`.",
    "subscribePattern": (
        "Regular expression that whole topic names must match; a stream takes up new topics that "
        "match, retry and dead letter topics are left out."
    ),
    "assign": 'Single queues to read, `{"topic":{"broker-a":[0,1]}}`.',
    "subExpression": (
        "Tags to read, `TagA || TagB`; the broker leaves out the rest. Unset reads all."
    ),
    "sqlExpression": (
        "SQL92 condition on user properties, checked by the broker, which must have "
        "`enablePropertyFilter=true`; not together with `subExpression`."
    ),
    "startingOffsets": (
        "Where to begin: `earliest`, `latest` (streams only), `group`, `group:earliest`, "
        '`group:latest`, or offsets, `{"topic":{"broker-a":{"0":23}}}` (-2 earliest, -1 latest). '
        "Unset: batches begin at the earliest, streams at the latest; a checkpoint wins over it."
    ),
    "endingOffsets": (
        "Where a batch ends, not included: `latest`, or offsets as in `startingOffsets`. `latest` "
        "is that of the moment of planning."
    ),
    "startingTimestamp": (
        "Begin at the first message stored at or after this moment: epoch ms, or ISO 8601 with a "
        "zone; wins over `startingOffsets`."
    ),
    "endingTimestamp": (
        "End before the first message stored at or after this moment; written like "
        "`startingTimestamp`, wins over `endingOffsets`."
    ),
    "startingOffsetsByTimestamp": (
        'A moment in epoch ms for each queue, `{"topic":{"broker-a":{"0":1767225600000}}}`; '
        "queues without one begin at the earliest (batches) or latest (streams)."
    ),
    "endingOffsetsByTimestamp": (
        "The same for the end of a batch; queues without a moment end at their latest."
    ),
    "startingOffsetsByTimestampStrategy": (
        "When no message is as new as the moment asked for: `error`, or `latest` to begin at the "
        "end."
    ),
    "failOnDataLoss": (
        "Whether offsets that are gone (aged out, topic made anew, queue missing for long) fail "
        "the query; `false` goes on behind them and logs a warning."
    ),
    "maxOffsetsPerTrigger": (
        "At most so many offsets per micro-batch, split over the queues by their backlog; "
        "filtered messages count, too."
    ),
    "maxBytesPerTrigger": (
        "About so many stored bytes per micro-batch at most, reckoned with the mean size of a "
        "sample."
    ),
    "minOffsetsPerTrigger": (
        "Wait until so many offsets are new before a micro-batch begins, but no longer than "
        "`maxTriggerDelay`."
    ),
    "maxTriggerDelay": (
        "How long `minOffsetsPerTrigger` may hold news back: `500ms`, `30s`, `15m`, `2h`."
    ),
    "minPartitions": (
        "Cut the queues into about so many tasks; unset means one task per queue with news. The "
        "number of cores is a good value."
    ),
    "maxRecordsPerPartition": (
        "No task reads more offsets than this, so that a repeated one repeats little."
    ),
    "groupId": (
        "Group whose offsets `startingOffsets=group` takes, and to which a stream tells how far "
        "it is; reading itself needs none."
    ),
    "commitOffsets": (
        "Whether a stream stores its progress as offsets of `groupId`, for dashboards; unset: "
        "when `groupId` is given. The checkpoint decides all the same."
    ),
    "fetchOffset.numRetries": (
        "How often a question about topics, bounds and offsets is repeated when the answer fails."
    ),
    "fetchOffset.retryIntervalMs": "Pause in ms before each of these repetitions.",
    "offsetPollIntervalMs": (
        "A stream asks brokers for news at most every so many ms, and up to every second while "
        "there is none."
    ),
    "routeRefreshMs": "A stream looks for new topics, brokers and queues every so many ms.",
    "missingQueueGraceMs": (
        "How many ms a queue that a stream reads may be missing before that counts as data loss."
    ),
    "pullBatchSize": "Most messages that one request asks for; brokers cap it, at 32 by default.",
    "pullTimeoutMs": "How many ms one request may take; then it is made again.",
    "pullDeadlineMs": "A task fails when it made no progress for so many ms.",
    "prefetch": "Requests in flight per task: more hide the time on the way, and take more memory.",
    "arrowBatchRows": "Most rows of one Arrow batch handed to Spark.",
    "arrowBatchBytes": (
        "About how many bytes one such batch may have; memory of a task grows with it."
    ),
    "columns": (
        "Columns to read instead of the default ones, `topic,offset,body,property.region`; fewer "
        "are faster. `.schema(...)` says the same with types."
    ),
    "includeHeaders": "Whether the column `properties` is added, the dearest one.",
    "bodyCharsetErrors": (
        "For a body read as text: bytes that are no UTF-8 become U+FFFD (`replace`) or fail the "
        "task (`strict`)."
    ),
    "readFromSlave": "Whether pulls follow the broker's hint to read old messages from a slave.",
    "checkCrc": (
        "Whether each body is checked against its stored checksum; a wrong one fails the task."
    ),
    "pushFilters": (
        "Whether filters on `topic`, `queue_id`, `offset`, `store_timestamp` and `tags` narrow "
        "what is pulled; needs `spark.sql.python.filterPushdown.enabled=true`, else every read "
        "fails."
    ),
    "topic": (
        "Reads: the same as `subscribe`. Writes: the topic of all rows, which wins over a column "
        "`topic`."
    ),
    "tags": "Tag of rows whose column `tags` is null or missing.",
    "delayMs": (
        "Delay in ms of rows without a delay of their own, counted by the broker from arrival; at "
        "most one of this, `deliverAt` and `delayLevel`."
    ),
    "deliverAt": (
        "Moment before which such rows are not delivered: epoch ms, or ISO 8601 with a zone."
    ),
    "delayLevel": "Delay level of such rows, 1 to 18 (1 s to 2 h), which 4.x brokers know, too.",
    "delayConflict": (
        "When a row has several delay columns: `error` makes it an invalid row, `first` takes the "
        "first of `deliver_at`, `start_deliver_time`, `delay_ms`, `delay_level`."
    ),
    "maxDelayMs": (
        "A row further away than so many ms is invalid before anything is sent (three days by "
        "default, as brokers have); raise it with `timerMaxDelaySec`, 0: no limit here."
    ),
    "translateStartDeliverTime": (
        "Whether `start_deliver_time` is also stored as the property that 5.x brokers delay by; "
        "`never` leaves it as it is, for Aliyun ONS. `auto` and `always` do the same."
    ),
    "sendTimeoutMs": "How many ms one send may take; then it counts as failed and is made again.",
    "sendDeadlineMs": (
        "For how many ms after its first try a send is tried again while brokers restart, are away "
        "or are busy; then the task fails, and Spark repeats it. 0: only `sendRetries`."
    ),
    "sendRetries": (
        "How often a failed send is repeated in any case, at another broker if there is one."
    ),
    "maxInFlight": "Most sends of a task that wait for an answer.",
    "batchSend": "Whether rows without delay travel many in one request; `false` sends each alone.",
    "batchBytes": "Most bytes of one such request; must be under the broker's limit for messages.",
    "compression": (
        "How large bodies are compressed: `zlib`, `lz4`, `zstd` (these two need the extra of "
        "their name), or not at all. Compressed rows are sent one by one."
    ),
    "compressOver": "Only bodies over so many bytes are compressed.",
    "onInvalidRow": (
        "What happens to rows that cannot be messages: `fail` the write before anything of their "
        "Arrow batch is sent, `skip` and count them, or send them to `topic` `invalidRowTopic`."
    ),
    "invalidRowTopic": (
        "Where invalid rows go under `onInvalidRow=topic`, with the reason as property "
        "`INVALID_REASON`."
    ),
    "extraColumns": (
        "Columns that a write does not know: an `error`, stored as `properties` under their "
        "names, or `ignore`."
    ),
    "reservedProperties": (
        "Names in `properties` that RocketMQ keeps for itself: an `error` (invalid row), or "
        "`drop` them."
    ),
    "usePartition": "Whether a column `partition` fixes the queue, as `queue_id` does.",
    "acceptStatus": (
        "`stored` also takes answers that say a message is stored, but not yet flushed or copied "
        "to a slave; `SEND_OK` takes these for failures, as a master without its slave gives to "
        "every send."
    ),
    "clockToleranceMs": (
        "How many ms a worker's clock may be off when `deliver_at` is held against `maxDelayMs`."
    ),
    "dedupe": (
        "`auto` gives each row of a streaming write a property `DEDUPE_ID`, which a repeated "
        "batch gives again; `none` does not. Unset: `auto` for streams, `none` for batches."
    ),
    "replayGuard": (
        "Group that marks which micro-batch was written last, so that a batch that was whole is "
        "not sent again after a crash; one for each query, needs option `topic`."
    ),
    "replayGuardTakeOver": (
        "Whether a query may take over a `replayGuard` group that another query used."
    ),
}
"""By the name of the option."""
