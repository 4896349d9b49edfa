"""Table of the broker's options: RocketMQ's names, our defaults, ranges, which may change later.

Answers: which settings exist and what each may be. Must not know: a running broker. Read on:
``embedded_broker/settings/config.py``, which holds the values. Names, meanings and upstream
defaults come from ``BrokerConfig.java`` and ``MessageStoreConfig.java``; a name marked "ours" does
not exist there.
"""

from typing import Final

from attrs import Factory, field, frozen

OptionValue = int | bool | str

INT32_MAX: Final = 2_147_483_647
BYTES_MAX: Final = 1 << 50
CENTURY_MS: Final = 36_525 * 86_400_000
LEVELS: Final = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
PRECISIONS: Final = (100, 200, 500, 1000)


@frozen
class Option:
    """One setting: its type is that of its default.

    ``upstream`` is the default under ``defaults="upstream"``. ``live`` says whether
    ``config.update`` may change it on a running broker. ``fixed`` options can only have their
    default, because the broker has no other behaviour. With ``hours`` the text is a list of hours
    of the day. A ``secret`` value is never shown.
    """

    name: str
    default: OptionValue
    meaning: str
    upstream: OptionValue = field(
        default=Factory(lambda self: self.default, takes_self=True), kw_only=True
    )
    low: int = field(default=0, kw_only=True)
    high: int = field(default=INT32_MAX, kw_only=True)
    choices: tuple[str, ...] = field(default=(), kw_only=True)
    live: bool = field(default=True, kw_only=True)
    fixed: bool = field(default=False, kw_only=True)
    hours: bool = field(default=False, kw_only=True)
    secret: bool = field(default=False, kw_only=True)

    @property
    def kind(self) -> type:
        """``bool``, ``int`` or ``str``."""
        return type(self.default)

    @property
    def limit(self) -> str:
        """The values it may have, in words."""
        if self.fixed:
            return f"only {show(self.default)}: the embedded broker has no other behaviour"
        if self.kind is bool:
            return "true or false"
        if self.name == "timerPrecisionMs":
            return "100, 200, 500 or 1000 (others are rounded down to one of these)"
        if self.kind is int:
            return f"an integer from {self.low} to {self.high}"
        if self.hours:
            return "hours from 00 to 23, separated by semicolons"
        return "one of " + ", ".join(self.choices) if self.choices else "a text"

    def shown(self, value: OptionValue) -> str:
        """Write a value for logs and answers."""
        return "***" if self.secret and value else show(value)


def show(value: OptionValue) -> str:
    """Write a value as a broker.conf file has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


_TIMERS = (
    Option("timerWheelEnable", True, "timer messages are accepted; false: refused"),
    Option("timerPrecisionMs", 1000, "slot length of the wheel", live=False),
    Option(
        "timerReleasePrecisionMs",
        1,
        "ours: step of releases inside a slot, in ms; must divide timerPrecisionMs",
        upstream=1000,
        low=1,
        high=1000,
        live=False,
    ),
    Option("timerRollWindowSlot", 172_800, "longest hop of a long delay, in slots", live=False),
    Option("timerMaxDelaySec", 259_200, "longest delay that is accepted, in seconds"),
    Option("mappedFileSizeTimerLog", 104_857_600, "TimerLog file size", low=128, live=False),
    Option(
        "timerEngine",
        "wheel",
        "ours: how timers are kept, in RocketMQ 5's wheel or in a log for each time slice",
        choices=("wheel", "sliced"),
        live=False,
    ),
    Option(
        "timeSliceLength",
        1800,
        "ours, sliced engine: length of a slice in seconds",
        low=1,
        high=86_400,
        live=False,
    ),
    Option(
        "slicePreloadSec",
        60,
        "ours, sliced engine: how many seconds before its begin a slice is loaded",
        live=False,
    ),
    Option(
        "mappedFileSizeDCommitLog",
        67_108_864,
        "ours, sliced engine: file size of a slice's log",
        low=1024,
        live=False,
    ),
    Option(
        "sliceCell",
        "offset",
        "ours, sliced engine: memory holds where a timer lies that is due soon",
        choices=("offset",),
        live=False,
    ),
    Option("timerFlushIntervalMs", 1000, "ms between flushes of the timer log", low=1),
    Option("timerGetMessageThreadNum", 3, "no effect: timers are read in order", fixed=True),
    Option("timerPutMessageThreadNum", 3, "no effect: timers leave in due order", fixed=True),
    Option(
        "timerCongestNumEachSlot", INT32_MAX, "a slot refuses some above it, all above twice it"
    ),
    Option(
        "timerCongestPolicy",
        "source",
        "ours: how the chance of a refusal changes between the two limits",
        choices=("source", "monotone"),
    ),
    Option(
        "timerEnableRetryUntilSuccess",
        True,
        "a due message that cannot be stored is tried for ever, not three times",
        upstream=False,
    ),
    Option(
        "timerBareDeleteKey",
        False,
        "ours: clients may send TIMER_DEL_UNIQKEY, with or without its topic, as before 5.3.2",
    ),
    Option("timerSkipUnknownError", False, "after an unknown error a timer is dropped"),
    Option(
        "timerSkipOldSlots",
        False,
        "ours: timers that a downtime made older than the wheel are dropped, not delivered",
        upstream=True,
        live=False,
    ),
    Option("timerStopEnqueue", False, "pause reading the timer topic"),
    Option("timerStopDequeue", False, "pause releasing"),
    Option("timerEnableCheckMetrics", True, "counts of pending timers are checked and corrected"),
    Option("timerCheckMetricsWhen", "05", "local hours in which counts are checked", hours=True),
    Option("timerMetricSmallThreshold", 1_000_000, "only topics with fewer timers are checked"),
    Option("timerProgressLogIntervalMs", 10_000, "ms between lines of progress in the log", low=1),
    Option("disappearTimeAfterStart", -1, "ms after start without releases", low=-1, live=False),
    Option("timerWarmEnable", False, "no effect, neither here nor in RocketMQ"),
    Option("timerEnableDisruptor", False, "kind of queue in RocketMQ", fixed=True),
    Option("timerInterceptDelayLevel", False, "not used in RocketMQ", fixed=True),
    Option(
        "startDeliverTimeEnable",
        True,
        "ours: __STARTDELIVERTIME is honoured as an alias of TIMER_DELIVER_MS",
        upstream=False,
    ),
    Option("routeDelayLevelToWheel", False, "ours: delay levels become timers", live=False),
    Option(
        "outOfRangePolicy",
        "reject",
        "ours: what happens to a delay beyond timerMaxDelaySec: refused, or delivered at once",
        choices=("reject", "immediate"),
    ),
    Option("recallMessageEnable", True, "messages can be recalled (request 370)", upstream=False),
    Option("allowRecallWhenBrokerNotWriteable", True, "recall works while sends are refused"),
    Option("messageDelayLevel", LEVELS, "the delays of level 1, level 2, ...", live=False),
    Option("flushDelayOffsetInterval", 10_000, "ms between saves of delayOffset.json", low=1),
    Option("delayOffsetUpdateVersionStep", 200, "steps of a level per data version", low=1),
    Option("enableScheduleMessageStats", True, "statistics of levels", fixed=True),
    Option(
        "enableScheduleAsyncDeliver",
        False,
        "levels put the next message before the last one is durable",
        live=False,
    ),
    Option(
        "scheduleAsyncDeliverMaxPendingLimit",
        2000,
        "a level waits while more puts than this have no answer",
    ),
    Option(
        "scheduleAsyncDeliverMaxResendNum2Blocked",
        3,
        "a level waits while its oldest put was tried more often than this",
    ),
)

_TRANSACTIONS = (
    Option("rejectTransactionMessage", False, "half messages are refused with 16"),
    Option("transactionTimeOut", 6000, "ms until a producer is first asked", low=1),
    Option("transactionCheckInterval", 30_000, "ms between two checks; 60000 before 5.1.4", low=1),
    Option("transactionCheckMax", 15, "checks until a half message is given up"),
    Option(
        "transactionEndOnce",
        False,
        "ours: a second commit or rollback is refused with 1 instead of being done again",
    ),
)

_POP = (
    Option("popPollingSize", 1024, "most pops that wait for one queue of a group, or for any"),
    Option("maxPopPollingSize", 100_000, "most pops that wait at one time"),
    Option("reviveQueueNum", 8, "queues of the revive topic", low=1, high=999, live=False),
    Option("popFromRetryProbability", 20, "percent of pops that begin with what came back"),
    Option("enableRetryTopicV2", False, "what comes back goes to %RETRY%group+topic, not group_"),
    Option(
        "retrieveMessageFromPopRetryTopicV1",
        True,
        "with enableRetryTopicV2: every second pop still looks at %RETRY%group_topic",
    ),
    Option(
        "popResponseReturnActualRetryTopic",
        False,
        "what comes back is handed out under the name of its retry topic",
    ),
    Option(
        "initPopOffsetByCheckMsgInMem",
        True,
        "a new group that begins at the end of a queue gets all of it, if nothing was removed yet",
    ),
    Option(
        "defaultMessageRequestMode",
        "PULL",
        "how groups get messages that let the broker distribute queues",
        choices=("PULL", "POP"),
    ),
    Option("defaultPopShareQueueNum", -1, "clients whose queues a popping client shares", low=-1),
    Option("serverLoadBalancerEnable", True, "request 400 distributes queues; false: all to all"),
)

QUEUE_NUMS_MAX: Final = 1_048_576
"""The most queues that a topic can have, whatever `maxQueueNums` says."""

_TOPICS_AND_GROUPS = (
    Option("autoCreateTopicEnable", True, "a send creates its topic", live=False),
    Option("autoCreateSubscriptionGroup", True, "a heartbeat or pull creates its group"),
    Option("defaultTopicQueueNums", 8, "most queues of an auto-created topic", low=1, live=False),
    Option(
        "maxQueueNums",
        65_536,
        "ours: most queues of a topic, for reading and for writing, and of a group's retries",
        low=1,
        high=QUEUE_NUMS_MAX,
    ),
    Option(
        "allowRemoteAdmin",
        False,
        "ours: peers from other hosts may change topics, groups, options and a group's place",
    ),
    Option("clusterTopicEnable", True, "a topic named as the cluster exists", live=False),
    Option("brokerTopicEnable", True, "a topic named as the broker exists", live=False),
    Option("traceTopicEnable", False, "the trace topic exists from the start", live=False),
    Option("msgTraceTopicName", "RMQ_SYS_TRACE_TOPIC", "name of the trace topic", live=False),
    Option("maxTopicLength", 127, "longest topic name; the profile sets it", fixed=True),
    Option("validateSystemTopicWhenUpdateTopic", True, "request 17 refuses system topics"),
    Option("enableMixedMessageType", False, "topics of type MIXED may be created"),
    Option(
        "enforceTopicMessageType",
        False,
        "ours: a message must have its topic's message.type, whatever limits= says",
    ),
    Option(
        "enableTopicMessageTypeCheck",
        True,
        "of the proxy: the same check; used with limits=proxy",
    ),
    Option(
        "maxDelayTimeMills",
        86_400_000,
        "of the proxy: longest delay in ms; used with limits=proxy and for gRPC clients; 0 or "
        "less: no limit",
        low=-1,
        high=CENTURY_MS,
    ),
    Option("useDelayLevel", False, "of the proxy: delays of gRPC use levels", fixed=True),
    Option("brokerPermission", 6, "what clients may do: 4 read, 2 write, 6 both", high=7),
    Option("storeReplyMessageEnable", True, "replies are stored, too (requests 324 and 325)"),
    Option("notifyConsumerIdsChangedEnable", True, "members are told when their group changes"),
    Option(
        "notifyAgainAfterRetryTopic",
        True,
        "ours: members are told again one second after their retry topic was created",
        upstream=False,
    ),
    Option(
        "acceptNewerSubVersion",
        True,
        "ours: a pull with a newer subVersion is answered without a filter, not refused with 25",
        upstream=False,
    ),
    Option(
        "batchItemsKeepUniqKey",
        True,
        "ours: the messages of a batch keep their own UNIQ_KEY",
        upstream=False,
    ),
    Option("channelExpiredTimeout", 120_000, "ms without heartbeat until a client is removed"),
    Option(
        "unreadAnswersMaxBytes",
        268_435_456,
        "ours: most bytes of answers that all clients together leave unread; above it the "
        "connections that leave most are closed",
        low=1_048_576,
        high=BYTES_MAX,
    ),
    Option(
        "unfinishedRequestsMaxBytes",
        268_435_456,
        "ours: most bytes of requests that have not arrived as a whole, of all clients together; "
        "above it the connections with most of them are closed",
        low=1_048_576,
        high=BYTES_MAX,
    ),
    Option(
        "decompressedTotalMaxBytes",
        268_435_456,
        "ours: most bytes that the compressed messages of one call of broker.messages, or of a "
        "group's retries or dead letters, become",
        low=1_048_576,
        high=BYTES_MAX,
    ),
    Option("consumerOffsetUpdateVersionStep", 500, "commits per data version", fixed=True),
    Option("flushConsumerOffsetInterval", 5000, "ms between saves of consumerOffset.json", low=1),
    Option("enablePropertyFilter", True, "SQL92 subscriptions are accepted", upstream=False),
    Option("filterSupportRetry", False, "SQL92 on retry topics", fixed=True),
    Option(
        "filterDataCleanTimeSpan", 86_400_000, "ms for which the SQL92 filter of a gone group stays"
    ),
    Option("litePullMessageEnable", True, "lite pulls are answered (request 361)"),
    Option("longPollingEnable", True, "a pull may wait for messages (long polling)"),
    Option("shortPollingTimeMills", 1000, "longest wait in ms when longPollingEnable is false"),
    Option("regionId", "DefaultRegion", "region that send answers name (MSG_REGION)"),
    Option("traceOn", True, "whether send answers ask for traces (TRACE_ON)"),
    Option("filterServerNums", 0, "filter servers, which are gone since 5.1.4", fixed=True),
    Option("useTLS", False, "TLS of the broker's own requests to others", fixed=True),
)

_ACCESS = (
    Option(
        "maxConnections",
        10_000,
        "ours: so many TCP connections are served by all brokers of a cluster and their name "
        "server; others are closed at once",
        low=1,
    ),
    Option(
        "serverChannelMaxIdleTimeSeconds",
        120,
        "a connection is closed on which nothing came or went for so long; 0 is for ever",
        live=False,
    ),
    Option("aclEnable", False, "ACL 1: requests are signed by plain accounts", live=False),
    Option(
        "plainAclFile",
        "",
        "ours: the plain_acl.yml of aclEnable (extra acl); a real broker's is in conf of its home",
        live=False,
    ),
    Option("authenticationEnabled", False, "ACL 2: requests are signed by users", live=False),
    Option("authorizationEnabled", False, "ACL 2: users need policies", live=False),
    Option(
        "initAuthenticationUser",
        "",
        'ACL 2: the first super user, {"username":"...","password":"..."}',
        live=False,
        secret=True,
    ),
    Option(
        "innerClientAuthenticationCredentials",
        "",
        'ACL 2: one more super user, {"accessKey":"...","secretKey":"..."}',
        live=False,
        secret=True,
    ),
    Option("authenticationWhitelist", "", "ACL 2: codes that need no signature", live=False),
    Option("authorizationWhitelist", "", "ACL 2: codes that need no policy", live=False),
)

_STORE = (
    Option("maxMessageSize", 4_194_304, "largest body in bytes", low=1, high=16_000_000),
    Option("mappedFileSizeCommitLog", 1_073_741_824, "commit log file size", low=1024, live=False),
    Option(
        "mappedFileSizeConsumeQueue",
        6_000_000,
        "consume queue file size, rounded up to whole entries of 20 bytes",
        low=20,
        live=False,
    ),
    Option(
        "mapperFileSizeBatchConsumeQueue",
        13_800_000,
        "file size of the queues of BatchCQ topics, rounded up to whole entries of 46 bytes",
        low=46,
        live=False,
    ),
    Option(
        "flushDiskType",
        "ASYNC_FLUSH",
        "with SYNC_FLUSH a send is answered after its bytes are synced",
        choices=("ASYNC_FLUSH", "SYNC_FLUSH"),
        live=False,
    ),
    Option(
        "damagedRecords",
        "refuse",
        "a store with damaged files is refused at opening, or opened without what is damaged; ours",
        choices=("refuse", "skip"),
        live=False,
    ),
    Option(
        "storeCheck",
        "quick",
        "with full all of a store is read and checked at opening, after a clean stop too; ours",
        choices=("quick", "full"),
        live=False,
    ),
    Option("syncFlushTimeout", 5000, "ms after which a send without a sync answers 10", low=1),
    Option("flushIntervalCommitLog", 500, "ms between syncs of the commit log", low=1),
    Option("flushIntervalConsumeQueue", 1000, "no effect: synced with the commit log", fixed=True),
    Option(
        "maxTransferBytesOnMessageInMemory",
        262_144,
        "most bytes of a pull's answer; what a frame cannot carry counts as 16711680",
        low=1,
    ),
    Option(
        "maxTransferCountOnMessageInMemory",
        32,
        "most messages of a pull's answer; more than 16384 count as 16384",
        low=1,
    ),
    Option("maxTransferBytesOnMessageInDisk", 65_536, "no effect: all are in memory", fixed=True),
    Option("maxTransferCountOnMessageInDisk", 8, "no effect: all are in memory", fixed=True),
    Option("messageIndexEnable", True, "messages are found by key", live=False),
    Option("maxHashSlotNum", 5_000_000, "hash slots of an index file", low=1, live=False),
    Option("maxIndexNum", 20_000_000, "entries of an index file", low=2, live=False),
    Option("maxMsgsNumBatch", 64, "most hits of a query by key", low=1, high=4096),
    Option("defaultQueryMaxNum", 32, "most hits of a query by unique key", low=1),
    Option(
        "maxMessagesInBatch",
        10_000,
        "ours: most messages that one request may bring",
        low=1,
    ),
    Option("checkCRCOnRecover", True, "bodies are checked when a store is opened", fixed=True),
    Option("fileReservedTime", 72, "hours after which a commit log file is old", low=1),
    Option("deleteWhen", "04", "local hours in which old files are removed", hours=True),
    Option(
        "diskMaxUsedSpaceRatio",
        75,
        "percent of the disk in use above which old files are removed at any hour; of the budget "
        "of a memory store, above which files go that nobody waits for",
        low=10,
        high=95,
    ),
    Option(
        "memoryStoreMaxBytes",
        0,
        "ours: most bytes of a store in memory; above it sends are refused with 14. 0: a quarter "
        "of the memory that is available at the start, and 256 MiB at least; the brokers of a "
        "cluster share it, 96 MiB for each at least",
        high=BYTES_MAX,
    ),
)

_ROLES = (
    Option(
        "brokerRole",
        "ASYNC_MASTER",
        "whether sends wait for slaves (SYNC_MASTER), or it is one (SLAVE)",
        choices=("ASYNC_MASTER", "SYNC_MASTER", "SLAVE"),
        live=False,
    ),
    Option("brokerId", 0, "0 of a master; of a slave its number", live=False),
    Option(
        "namesrvAddr",
        "",
        "name servers (host:port, separated by semicolons) where it registers besides its own; a "
        "slave finds its master there",
        live=False,
    ),
    Option(
        "enableSlaveActingMaster",
        False,
        "of master and slaves: while the master is away the slave with the least brokerId delivers "
        "what is due (with enableRemoteEscape); the master that comes back asks it how far it came",
        live=False,
    ),
    Option(
        "enableRemoteEscape",
        False,
        "with enableSlaveActingMaster: a slave may put what is due on other brokers",
        live=False,
    ),
    Option(
        "syncBrokerMemberGroupPeriod",
        1000,
        "with enableSlaveActingMaster: ms after which a slave looks again whether its master is "
        "away",
        low=1,
        live=False,
    ),
    Option(
        "escapeNamesrvAddr",
        "",
        "ours: name servers (host:port, separated by semicolons) of the brokers that get what is "
        "due here; this broker then only delays. None: it goes into this broker's own topics",
        live=False,
    ),
    Option("registerNameServerPeriod", 30_000, "ms between registrations at namesrvAddr", low=1),
    Option("haMasterAddress", "", "of a slave: HA address of its master, if not as registered"),
    Option(
        "slaveReadEnable",
        False,
        "a slave answers pulls, else they are refused with 2; a master sends there who lags far",
    ),
    Option(
        "accessMessageInMemoryMaxRatio",
        40,
        "with slaveReadEnable: who lags by more percent of the memory is sent to a slave",
        high=100,
    ),
    Option(
        "haListenPort",
        -1,
        "where slaves follow this broker; 0: a free port, -1: none follows",
        low=-1,
        high=65_535,
        live=False,
    ),
    Option("haSendHeartbeatInterval", 5000, "ms without a word until a slave gets a heartbeat"),
    Option("haHousekeepingInterval", 20_000, "ms until a silent slave is given up", low=1),
    Option("haTransferBatchSize", 32_768, "most bytes of the log in one piece", low=1),
    Option("slaveTimeout", 3000, "ms after which a send that waits for slaves answers 12", low=1),
    Option(
        "inSyncReplicas",
        1,
        "SYNC_MASTER: so many brokers must have a message, this one too; before 5.0 any slave",
    ),
    Option("enableAutoInSyncReplicas", False, "those that are there are enough"),
    Option("minInSyncReplicas", 1, "with enableAutoInSyncReplicas: so many at least"),
    Option("totalReplicas", 1, "so many brokers are expected; inSyncReplicas must not be more"),
    Option("haMaxGapNotInSync", 268_435_456, "bytes by which a slave that counts may be behind"),
)

OPTIONS: dict[str, Option] = {
    option.name: option
    for option in (
        *(*_TIMERS, *_TRANSACTIONS, *_POP),
        *(*_TOPICS_AND_GROUPS, *_ACCESS, *_STORE, *_ROLES),
    )
}
"""Every option of the broker by name."""

ARGUMENT_NAMES: dict[str, str] = {
    "brokerClusterName": "cluster_name",
    "brokerName": "broker_name",
    "brokerIP1": "host",
    "listenPort": "broker_port",
    "storePathRootDir": "store",
}
"""Names in a broker.conf file that ``EmbeddedBroker`` has as arguments."""

_TUNING_OF_THE_REAL_BROKER: Final = """
abortFile adminBrokerThreadPoolNums
autoDeleteUnusedStats brokerFastFailureEnable brokerIP2 cleanFileForciblyEnable
clientManageThreadPoolNums commitIntervalCommitLog consumerManageThreadPoolNums
deleteCommitLogFilesInterval deleteConsumeQueueFilesInterval destroyMapedFileIntervalForcibly
diskFallRecorded diskSpaceCleanForciblyRatio diskSpaceWarningLevelRatio
enableCalcFilterBitMap enableConsumeQueueExt enableControllerMode enableDLegerCommitLog
enableDetailStat enableMultiDispatch endTransactionThreadPoolNums fastFailIfNoBufferInStorePool
fetchNamesrvAddrByAddressServer flushCommitLogLeastPages flushCommitLogThoroughInterval
flushCommitLogTimed flushConsumeQueueLeastPages flushConsumeQueueThoroughInterval
heartbeatThreadPoolNums maxRecoveryCommitlogFiles
osPageCacheBusyTimeOutMills processReplyMessageThreadPoolNums
pullMessageThreadPoolNums pullThreadPoolQueueCapacity queryMessageThreadPoolNums
queryThreadPoolQueueCapacity redeleteHangedFileInterval registerBrokerTimeoutMills
rocketmqHome sendMessageThreadPoolNums
sendThreadPoolQueueCapacity serverAsyncSemaphoreValue serverCallbackExecutorThreads
serverOnewaySemaphoreValue serverPooledByteBufAllocatorEnable
serverSelectorThreads serverSocketRcvBufSize serverSocketSndBufSize serverWorkerThreads
storeCheckpoint storePathCommitLog storePathConsumeQueue storePathIndex
enableTransactionMetrics transactionMetricFlushInterval transactionOpBatchInterval
transactionOpMsgMaxSize transferMsgByHeap transientStorePoolEnable
transientStorePoolSize useEpollNativeSelector useReentrantLockWhenPutMessage
waitTimeMillsInPullQueue waitTimeMillsInSendQueue warmMapedFileEnable
"""

WITHOUT_EFFECT: frozenset[str] = frozenset(_TUNING_OF_THE_REAL_BROKER.split())
"""Names in real broker.conf files that have no effect here. The loader reports each one."""
