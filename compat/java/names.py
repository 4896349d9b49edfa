"""Which of Java's public names there are here, what each is in Python, and why the others are not.

`FORWARDED` has for each class the Python targets and the Java names that stand for them: one-line
methods, written once from this table. ``getX`` and ``isX`` read a target that is data, ``setX``
assigns it. `NOT_OFFERED` has the reasons, which an `AttributeError` tells. The tests hold both
against the public methods of the Java client. Must not know what a name does.
"""

from typing import Final, NoReturn

FORWARDED: Final[dict[str, dict[str, str]]] = {
    "Message": {
        "topic": "getTopic setTopic",
        "body": "getBody setBody",
        "flag": "getFlag setFlag",
        "tags": "getTags",
        "set_tags": "setTags",
        "keys": "getKeys",
        "set_keys": "setKeys",
        "properties": "getProperties getProperty hasProperty",
        "put_user_property": "putUserProperty",
        "get_user_property": "getUserProperty",
        "wait_store_msg_ok": "isWaitStoreMsgOK setWaitStoreMsgOK",
        "buyer_id": "getBuyerId setBuyerId",
        "transaction_id": "getTransactionId setTransactionId",
        "get_delay_time_level": "getDelayTimeLevel",
        "set_delay_time_level": "setDelayTimeLevel",
        "get_delay_time_sec": "getDelayTimeSec",
        "set_delay_time_sec": "setDelayTimeSec",
        "get_delay_time_ms": "getDelayTimeMs",
        "set_delay_time_ms": "setDelayTimeMs",
        "get_deliver_time_ms": "getDeliverTimeMs",
        "set_deliver_time_ms": "setDeliverTimeMs",
        "str": "toString",
    },
    "MessageExt": {
        "broker_name": "getBrokerName setBrokerName",
        "queue_id": "getQueueId setQueueId",
        "queue_offset": "getQueueOffset setQueueOffset",
        "commit_log_offset": "getCommitLogOffset setCommitLogOffset",
        "store_size": "getStoreSize setStoreSize",
        "sys_flag": "getSysFlag setSysFlag",
        "born_timestamp": "getBornTimestamp setBornTimestamp",
        "born_host": "getBornHost getBornHostString",
        "born_host_bytes": "getBornHostBytes",
        "store_timestamp": "getStoreTimestamp setStoreTimestamp",
        "store_host": "getStoreHost",
        "store_host_bytes": "getStoreHostBytes",
        "body_crc": "getBodyCRC setBodyCRC",
        "reconsume_times": "getReconsumeTimes setReconsumeTimes",
        "prepared_transaction_offset": "getPreparedTransactionOffset setPreparedTransactionOffset",
        "msg_id": "getMsgId",
        "set_unique_key": "setMsgId",
        "str": "toString",
    },
    "MessageUtil": {
        "create_reply_message": "createReplyMessage",
        "properties": "getReplyToClient",
    },
    "MessageBatch": {"encode": "encode", "iter": "iterator", "MessageBatch": "generateFromList"},
    "MessageQueue": {
        "topic": "getTopic",
        "broker_name": "getBrokerName",
        "queue_id": "getQueueId",
        "==": "equals",
        "<": "compareTo",
        "str": "toString",
    },
    "SendResult": {
        "send_status": "getSendStatus",
        "msg_id": "getMsgId",
        "offset_msg_id": "getOffsetMsgId",
        "message_queue": "getMessageQueue",
        "queue_offset": "getQueueOffset",
        "transaction_id": "getTransactionId",
        "region_id": "getRegionId",
        "trace_on": "isTraceOn",
        "recall_handle": "getRecallHandle",
        "str": "toString",
    },
    "TransactionSendResult": {"local_transaction_state": "getLocalTransactionState"},
    "QueryResult": {
        "index_last_update_timestamp": "getIndexLastUpdateTimestamp",
        "message_list": "getMessageList",
        "str": "toString",
    },
    "MessageSelector": {
        "by_tag": "byTag",
        "by_sql": "bySql",
        "expression": "getExpression",
        "expression_type": "getExpressionType",
    },
    "ConsumeConcurrentlyContext": {
        "message_queue": "getMessageQueue",
        "delay_level_when_next_consume": (
            "getDelayLevelWhenNextConsume setDelayLevelWhenNextConsume"
        ),
        "ack_index": "getAckIndex setAckIndex",
    },
    "ConsumeOrderlyContext": {
        "message_queue": "getMessageQueue",
        "auto_commit": "isAutoCommit setAutoCommit",
        "suspend_current_queue_time_millis": (
            "getSuspendCurrentQueueTimeMillis setSuspendCurrentQueueTimeMillis"
        ),
    },
    "SendCallback": {"on_success": "onSuccess", "on_exception": "onException"},
    "RequestCallback": {"request_async": "onSuccess onException"},
    "TransactionListener": {
        "execute_local_transaction": "executeLocalTransaction",
        "check_local_transaction": "checkLocalTransaction",
    },
    "MessageQueueSelector": {"selector": "select"},
    "MessageListenerConcurrently": {"consume_message": "consumeMessage"},
    "MessageListenerOrderly": {"consume_message": "consumeMessage"},
    "TopicMessageQueueChangeListener": {"QueueListener": "onChanged"},
    "ClientNames": {
        "start": "start",
        "shutdown": "shutdown",
        "namesrv_addr": "getNamesrvAddr setNamesrvAddr",
        "client_ip": "getClientIP setClientIP",
        "instance_name": "getInstanceName setInstanceName",
        "unit_name": "getUnitName setUnitName",
        "unit_mode": "isUnitMode setUnitMode",
        "namespace": "getNamespace setNamespace",
        "namespace_v2": "getNamespaceV2 setNamespaceV2",
        "client_callback_executor_threads": (
            "getClientCallbackExecutorThreads setClientCallbackExecutorThreads"
        ),
        "poll_name_server_interval": "getPollNameServerInterval setPollNameServerInterval",
        "heartbeat_broker_interval": "getHeartbeatBrokerInterval setHeartbeatBrokerInterval",
        "persist_consumer_offset_interval": (
            "getPersistConsumerOffsetInterval setPersistConsumerOffsetInterval"
        ),
        "mq_client_api_timeout": "getMqClientApiTimeout setMqClientApiTimeout",
        "vip_channel_enabled": "isVipChannelEnabled setVipChannelEnabled",
        "use_tls": "isUseTLS setUseTLS",
        "str": "toString",
    },
    "TracedNames": {
        "enable_trace": "isEnableTrace setEnableTrace",
        "trace_topic": "getTraceTopic setTraceTopic",
        "access_channel": "getAccessChannel setAccessChannel",
    },
    "ProducerNames": {
        "producer_group": "getProducerGroup setProducerGroup",
        "topics": "getTopics setTopics",
        "create_topic_key": "getCreateTopicKey setCreateTopicKey",
        "default_topic_queue_nums": "getDefaultTopicQueueNums setDefaultTopicQueueNums",
        "send_msg_timeout": "getSendMsgTimeout setSendMsgTimeout",
        "send_msg_max_timeout_per_request": (
            "getSendMsgMaxTimeoutPerRequest setSendMsgMaxTimeoutPerRequest"
        ),
        "compress_msg_body_over_howmuch": (
            "getCompressMsgBodyOverHowmuch setCompressMsgBodyOverHowmuch"
        ),
        "compress_level": "getCompressLevel setCompressLevel",
        "compress_type": "getCompressType setCompressType",
        "retry_times_when_send_failed": "getRetryTimesWhenSendFailed setRetryTimesWhenSendFailed",
        "retry_times_when_send_async_failed": (
            "getRetryTimesWhenSendAsyncFailed setRetryTimesWhenSendAsyncFailed"
        ),
        "retry_another_broker_when_not_store_ok": (
            "isRetryAnotherBrokerWhenNotStoreOK setRetryAnotherBrokerWhenNotStoreOK"
        ),
        "retry_response_codes": "getRetryResponseCodes",
        "add_retry_response_code": "addRetryResponseCode",
        "max_message_size": "getMaxMessageSize setMaxMessageSize",
        "vip_channel_enabled": "isSendMessageWithVIPChannel setSendMessageWithVIPChannel",
        "send_latency_enable": (
            "isSendLatencyFaultEnable setSendLatencyFaultEnable "
            "isSendLatencyEnable setSendLatencyEnable"
        ),
        "start_detector_enable": "isStartDetectorEnable setStartDetectorEnable",
        "detect_interval": "getDetectInterval setDetectInterval",
        "detect_timeout": "getDetectTimeout setDetectTimeout",
    },
    "DefaultMQProducer": {
        "send": "send",
        "send_oneway": "sendOneway",
        "request": "request",
        "send_message_in_transaction": "sendMessageInTransaction",
        "recall_message": "recallMessage",
        "fetch_publish_message_queues": "fetchPublishMessageQueues",
        "create_topic": "createTopic",
        "search_offset": "searchOffset",
        "max_offset": "maxOffset",
        "min_offset": "minOffset",
        "earliest_msg_store_time": "earliestMsgStoreTime",
        "query_message": "queryMessage",
        "view_message": "viewMessage",
    },
    "TransactionMQProducer": {
        "send_message_in_transaction": "sendMessageInTransaction",
        "transaction_listener": "getTransactionListener setTransactionListener",
        "executor": "getExecutorService setExecutorService",
        "check_thread_pool_min": "getCheckThreadPoolMinSize setCheckThreadPoolMinSize",
        "check_thread_pool_max": "getCheckThreadPoolMaxSize setCheckThreadPoolMaxSize",
        "check_request_hold_max": "getCheckRequestHoldMax setCheckRequestHoldMax",
    },
    "ConsumerNames": {
        "consumer_group": "getConsumerGroup setConsumerGroup",
        "message_model": "getMessageModel setMessageModel",
        "consume_from_where": "getConsumeFromWhere setConsumeFromWhere",
        "consume_timestamp": "getConsumeTimestamp setConsumeTimestamp",
        "allocate_strategy": "getAllocateMessageQueueStrategy setAllocateMessageQueueStrategy",
        "pull_threshold_for_queue": "getPullThresholdForQueue setPullThresholdForQueue",
        "pull_threshold_size_for_queue": (
            "getPullThresholdSizeForQueue setPullThresholdSizeForQueue"
        ),
        "pull_batch_size": "getPullBatchSize setPullBatchSize",
        "pull_time_delay_millis_when_exception": (
            "getPullTimeDelayMillsWhenException setPullTimeDelayMillsWhenException"
        ),
    },
    "PushConsumerNames": {
        "pull_threshold_for_topic": "getPullThresholdForTopic setPullThresholdForTopic",
        "pull_threshold_size_for_topic": (
            "getPullThresholdSizeForTopic setPullThresholdSizeForTopic"
        ),
        "pull_interval": "getPullInterval setPullInterval",
        "pull_batch_size_in_bytes": "getPullBatchSizeInBytes setPullBatchSizeInBytes",
        "post_subscription_when_pull": "isPostSubscriptionWhenPull setPostSubscriptionWhenPull",
        "consume_thread_min": "getConsumeThreadMin setConsumeThreadMin",
        "consume_thread_max": "getConsumeThreadMax setConsumeThreadMax",
        "consume_message_batch_max_size": (
            "getConsumeMessageBatchMaxSize setConsumeMessageBatchMaxSize"
        ),
        "consume_concurrently_max_span": (
            "getConsumeConcurrentlyMaxSpan setConsumeConcurrentlyMaxSpan"
        ),
        "max_reconsume_times": "getMaxReconsumeTimes setMaxReconsumeTimes",
        "suspend_current_queue_time_millis": (
            "getSuspendCurrentQueueTimeMillis setSuspendCurrentQueueTimeMillis"
        ),
        "consume_timeout": "getConsumeTimeout setConsumeTimeout",
        "await_termination_millis_when_shutdown": (
            "getAwaitTerminationMillisWhenShutdown setAwaitTerminationMillisWhenShutdown"
        ),
        "client_rebalance": "isClientRebalance setClientRebalance",
        "pop_invisible_time": "getPopInvisibleTime setPopInvisibleTime",
        "pop_batch_nums": "getPopBatchNums setPopBatchNums",
        "pop_threshold_for_queue": "getPopThresholdForQueue setPopThresholdForQueue",
    },
    "DefaultMQPushConsumer": {
        "subscribe": "subscribe",
        "unsubscribe": "unsubscribe",
        "register_message_listener": "registerMessageListener setMessageListener",
        "suspend": "suspend",
        "resume": "resume",
        "update_core_pool_size": "updateCorePoolSize",
        "send_message_back": "sendMessageBack",
        "fetch_subscribe_message_queues": "fetchSubscribeMessageQueues",
        "register_consume_message_hook": "registerConsumeMessageHook",
    },
    "LitePullConsumerNames": {
        "auto_commit": "isAutoCommit setAutoCommit",
        "poll_timeout_millis": "getPollTimeoutMillis setPollTimeoutMillis",
        "pull_threshold_for_all": "getPullThresholdForAll setPullThresholdForAll",
        "consume_max_span": "getConsumeMaxSpan setConsumeMaxSpan",
        "topic_metadata_check_interval": (
            "getTopicMetadataCheckIntervalMillis setTopicMetadataCheckIntervalMillis"
        ),
        "enable_trace": "isEnableMsgTrace setEnableMsgTrace",
        "trace_topic": "getCustomizedTraceTopic setCustomizedTraceTopic",
    },
    "DefaultLitePullConsumer": {
        "is_running": "isRunning",
        "subscribe": "subscribe",
        "unsubscribe": "unsubscribe",
        "assign": "assign",
        "set_sub_expression_for_assign": "setSubExpressionForAssign",
        "assignment": "assignment",
        "poll": "poll",
        "seek": "seek",
        "seek_to_begin": "seekToBegin",
        "seek_to_end": "seekToEnd",
        "pause": "pause",
        "resume": "resume",
        "commit": "commit commitSync",
        "committed": "committed",
        "fetch_message_queues": "fetchMessageQueues",
        "offset_for_timestamp": "offsetForTimestamp",
        "register_topic_message_queue_change_listener": "registerTopicMessageQueueChangeListener",
    },
    "DefaultMQAdminExt": {
        "ask_again": "resumeCheckHalfMessage",
        "bounds": "maxOffset minOffset",
        "consume_message_directly": "consumeMessageDirectly",
        "create_and_update_subscription_group_config": "createAndUpdateSubscriptionGroupConfig",
        "create_and_update_topic_config": "createAndUpdateTopicConfig",
        "create_user": "createUser",
        "delete_subscription_group": "deleteSubscriptionGroup",
        "delete_topic_in_broker": "deleteTopicInBroker",
        "delete_topic_in_name_server": "deleteTopicInNameServer",
        "delete_user": "deleteUser",
        "examine_broker_cluster_info": "examineBrokerClusterInfo",
        "examine_consume_stats": "examineConsumeStats",
        "examine_consumer_connection_info": "examineConsumerConnectionInfo",
        "examine_producer_connection_info": "examineProducerConnectionInfo",
        "examine_topic_config": "examineTopicConfig",
        "examine_topic_route_info": "examineTopicRouteInfo",
        "examine_topic_stats": "examineTopicStats",
        "fetch_all_topic_list": "fetchAllTopicList",
        "fetch_broker_runtime_stats": "fetchBrokerRuntimeStats",
        "get_broker_config": "getBrokerConfig",
        "get_consumer_running_info": "getConsumerRunningInfo",
        "key_values": "getKVConfig getKVListByNamespace",
        "message_track_detail": "messageTrackDetail",
        "name_servers": "getNameServerAddressList",
        "put_key_value": "deleteKvConfig",
        "put_kv_config": "putKVConfig createAndUpdateKvConfig",
        "query_topic_consume_by_who": "queryTopicConsumeByWho",
        "reset_offset_by_timestamp": "resetOffsetByTimestamp",
        "set_message_request_mode": "setMessageRequestMode",
        "update_broker_config": "updateBrokerConfig",
        "users": "listUser",
        "view_message": "viewMessage",
    },
}
"""Class to Python target to Java names. The classes that end in ``Names`` are bases of clients."""

_INNER: Final = "it is an inner part of the Java client"
_VALUE: Final = "this is a value: make another one"
_OF_PRODUCERS: Final = "it is a setting of producers"
_NO_TRACE: Final = "an administrator has no trace"

NOT_OFFERED: Final[dict[str, dict[str, str]]] = {
    "Message": {"only vendors' clients write INSTANCE_ID": "setInstanceId"},
    "MessageExt": {
        "no client sets these flags": (
            "getTopicSysFlag setTopicSysFlag getGroupSysFlag setGroupSysFlag"
        ),
        "it would ask DNS: socket.getfqdn(message.getBornHostString()) does": (
            "getBornHostNameString"
        ),
        "assign born_host_bytes or store_host_bytes": (
            "setBornHost setStoreHost setBornHostV6Flag setStoreHostAddressV6Flag"
        ),
        _INNER: "parseTopicFilterType socketAddress2ByteBuffer",
    },
    "MessageQueue": {
        _VALUE: "setTopic setBrokerName setQueueId",
        "hash(queue) is Python's": "hashCode",
    },
    "SendResult": {
        _VALUE: (
            "setTraceOn setRegionId setMsgId setSendStatus setMessageQueue setQueueOffset "
            "setTransactionId setOffsetMsgId setRecallHandle"
        ),
        _INNER: ("encoderSendResultToJson decoderSendResultFromJson getRawRespBody setRawRespBody"),
    },
    "TransactionSendResult": {_VALUE: "setLocalTransactionState"},
    "ClientNames": {
        _INNER: (
            "changeInstanceNameToPID withNamespace withoutNamespace queueWithNamespace "
            "queuesWithNamespace isDecodeReadBody setDecodeReadBody isDecodeDecompressBody "
            "setDecodeDecompressBody isEnableStreamRequestType setEnableStreamRequestType "
            "isEnableHeartbeatChannelEventListener setEnableHeartbeatChannelEventListener "
            "isUseHeartbeatV2 setUseHeartbeatV2 getTraceMsgBatchNum setTraceMsgBatchNum"
        ),
        "client_id has it after the start": "buildMQClientId",
        "ClientConfig.of(client) makes a copy of its settings, and of(config) begins with them": (
            "resetClientConfig cloneClientConfig"
        ),
        "there is no way through a SOCKS proxy": "getSocksProxyConfig setSocksProxyConfig",
        "servers are told that it is Python": "getLanguage setLanguage",
    },
    "ProducerNames": {
        _INNER: (
            "getDefaultMQProducerImpl getTraceDispatcher getCompressor initProduceAccumulator "
            "sendDirect sendByAccumulator acquireBackPressureForAsyncSendSizeLock "
            "releaseBackPressureForAsyncSendSizeLock acquireBackPressureForAsyncSendNumLock "
            "releaseBackPressureForAsyncSendNumLock setBackPressureForAsyncSendSizeInsideAdjust "
            "setBackPressureForAsyncSendNumInsideAdjust"
        ),
        "callbacks run on client_callback_executor_threads": "setCallbackExecutor",
        "async_sender_threads says how many threads there are": "setAsyncSenderExecutor",
        "messages are not gathered: send a list of them": (
            "getBatchMaxDelayMs batchMaxDelayMs getBatchMaxBytes batchMaxBytes "
            "getTotalBatchMaxBytes totalBatchMaxBytes getAutoBatch setAutoBatch"
        ),
        "client_async_permits, client_async_bytes and async_sender_queue bound what is in flight": (
            "isEnableBackpressureForAsyncMode setEnableBackpressureForAsyncMode "
            "getBackPressureForAsyncSendNum setBackPressureForAsyncSendNum "
            "getBackPressureForAsyncSendSize setBackPressureForAsyncSendSize"
        ),
        "fault_table is FaultTable.V4 or FaultTable.V5": (
            "getNotAvailableDuration setNotAvailableDuration getLatencyMax setLatencyMax"
        ),
        "it is a setting of consumers": (
            "getPullTimeDelayMillsWhenException setPullTimeDelayMillsWhenException"
        ),
    },
    "TransactionMQProducer": {
        "it was replaced by setTransactionListener": (
            "getTransactionCheckListener setTransactionCheckListener"
        ),
    },
    "ConsumerNames": {
        _OF_PRODUCERS: (
            "isSendLatencyEnable setSendLatencyEnable isStartDetectorEnable "
            "setStartDetectorEnable getDetectTimeout setDetectTimeout getDetectInterval "
            "setDetectInterval"
        ),
        "offsets are kept by brokers, or in local_offset_store_dir": (
            "getOffsetStore setOffsetStore"
        ),
        "assigned_queues() tells which queues there are": (
            "getMessageQueueListener setMessageQueueListener"
        ),
        _INNER: "getTraceDispatcher",
    },
    "DefaultMQPushConsumer": {
        _INNER: "getDefaultMQPushConsumerImpl isConsumeOrderly",
        "a producer, or an administrator, asks about topics and messages": (
            "createTopic searchOffset maxOffset minOffset earliestMsgStoreTime queryMessage "
            "viewMessage"
        ),
        "it has no effect in Java either": (
            "getAdjustThreadPoolNumsThreshold setAdjustThreadPoolNumsThreshold"
        ),
        "call subscribe for each topic": "getSubscription setSubscription",
        "keep what you have registered": "getMessageListener",
        "keep whether you have called suspend": "isPause",
    },
    "DefaultLitePullConsumer": {
        "each poll commits, and brokers are told within a moment": (
            "getAutoCommitIntervalMillis setAutoCommitIntervalMillis"
        ),
        "no pull has a thread of its own": "getPullThreadNums setPullThreadNums",
        "masters are asked, and slaves where a master advises so": (
            "isConnectBrokerByUser setConnectBrokerByUser getDefaultBrokerId setDefaultBrokerId"
        ),
        "long polls have fixed times": (
            "getBrokerSuspendMaxTimeMillis getConsumerPullTimeoutMillis "
            "setConsumerPullTimeoutMillis getConsumerTimeoutMillisWhenSuspend "
            "setConsumerTimeoutMillisWhenSuspend"
        ),
        "a consumer keeps the name servers of its start": "updateNameServerAddress",
    },
    "DefaultMQAdminExt": {
        _OF_PRODUCERS: (
            "isSendLatencyEnable setSendLatencyEnable isStartDetectorEnable "
            "setStartDetectorEnable getDetectTimeout setDetectTimeout getDetectInterval "
            "setDetectInterval getCreateTopicKey setCreateTopicKey"
        ),
        "it is a setting of consumers": (
            "getPullTimeDelayMillsWhenException setPullTimeDelayMillsWhenException"
        ),
        _NO_TRACE: (
            "isEnableTrace setEnableTrace getTraceTopic setTraceTopic getAccessChannel "
            "setAccessChannel"
        ),
        "an administrator has no group": "getAdminExtGroup setAdminExtGroup",
        "ensure_topic makes a topic": "createTopic createAndUpdateTopicConfigList",
        "create_group makes a group": "createAndUpdateSubscriptionGroupConfigList",
        "group_settings gives the settings by broker": "examineSubscriptionGroupConfig",
        "delete_topic deletes a topic everywhere": "deleteTopic deleteTopicInBrokerConcurrent",
        "messages_by_key, messages_by_time and message find messages": (
            "queryMessage queryMessageByUniqKey queryConsumeQueue"
        ),
        "bounds gives the offsets of a topic, QueueAccess those of a time": (
            "searchOffset searchLowerBoundaryOffset searchUpperBoundaryOffset earliestMsgStoreTime"
        ),
        "set_offsets and reset_offsets change offsets": (
            "updateConsumeOffset resetOffsetByQueueId resetOffsetByTimestampOld resetOffsetNew "
            "resetOffsetNewConcurrent cloneGroupOffset"
        ),
        "group_progress tells how far a group is": (
            "examineConsumeStatsConcurrent getConsumeStatus fetchConsumeStatsInBroker "
            "queryConsumeTimeSpan queryConsumeTimeSpanConcurrent"
        ),
        "brokers, route and members tell who is there": (
            "getClusterList getTopicClusterList fetchTopicsByCLuster getAllProducerInfo "
            "querySubscription queryTopicsByConsumer queryTopicsByConsumerConcurrent "
            "examineTopicStatsConcurrent messageTrackDetailConcurrent"
        ),
        "topic_settings and group_settings give one at a time": (
            "getAllTopicConfig getUserTopicConfig getAllSubscriptionGroup getUserSubscriptionGroup"
        ),
        "alter_user, policies, put_policies and delete_policies do": (
            "updateUser getUser createAcl updateAcl deleteAcl getAcl listAcl"
        ),
        "set_broker_writable does": "wipeWritePermOfBroker addWritePermOfBroker",
        "RocketMQ's own mqadmin does": (
            "addBrokerToContainer removeBrokerFromContainer "
            "createOrUpdateOrderConf cleanExpiredConsumerQueue "
            "cleanExpiredConsumerQueueByAddr deleteExpiredCommitLog "
            "deleteExpiredCommitLogByAddr cleanUnusedTopic cleanUnusedTopicByAddr "
            "viewBrokerStatsData updateNameServerConfig getNameServerConfig "
            "checkRocksdbCqWriteProgress exportRocksDBConfigToJson createStaticTopic "
            "getBrokerHAStatus getInSyncStateData getBrokerEpochCache getControllerMetaData "
            "resetMasterFlushOffset updateAndGetGroupReadForbidden getControllerConfig "
            "updateControllerConfig electMaster cleanControllerBrokerData "
            "updateColdDataFlowCtrGroupConfig removeColdDataFlowCtrGroupConfig "
            "getColdDataFlowCtrInfo setCommitLogReadAheadMode exportPopRecords"
        ),
        _INNER: "getDefaultMQAdminExtImpl",
    },
}
"""Class to reason to the Java names that it is the reason of."""


CLASSES_NOT_OFFERED: Final[dict[str, str]] = {
    "use DefaultLitePullConsumer": (
        "DefaultMQPullConsumer MQPullConsumer MQPullConsumerScheduleService PullCallback "
        "PullResult PullStatus PullTaskCallback PullTaskContext"
    ),
    "it is IllegalStateError of rocketmq_py": "IllegalStateException",
    "it is ValueError, or TypeError": "IllegalArgumentException",
    "use the class that implements it": (
        "MQProducer MQConsumer MQPushConsumer LitePullConsumer MQAdmin MQAdminExt ClientConfig"
    ),
    "it was replaced by TransactionListener": "TransactionCheckListener",
    "text.encode() and body.decode() take UTF-8": "RemotingHelper",
    "hooks are RPCHook, SendMessageHook and ConsumeMessageHook of rocketmq_py": (
        "RPCHook SendMessageHook ConsumeMessageHook FilterMessageHook"
    ),
    "it is an inner part of the Java client": (
        "MessageAccessor MessageClientIDSetter MessageConst MessageDecoder MixAll NamespaceUtil "
        "ServiceState UtilAll Validators"
    ),
}
"""Reason to the Java classes that it is the reason of."""


def refuse_class(name: str) -> NoReturn:
    """Raise ImportError with the reason for a Java class, else AttributeError; for PEP 562."""
    for reason, names in CLASSES_NOT_OFFERED.items():
        if name in names.split():
            raise ImportError(f"compat.java has no {name}: {reason}", name=name)
    raise AttributeError(f"module 'compat.java' has no attribute {name!r}")


def reason_of(kind: type, name: str) -> str | None:
    """Say why a class, or a base of it, has no such Java name; None: nothing is known of it."""
    for owner in kind.__mro__:
        for reason, names in NOT_OFFERED.get(owner.__name__, {}).items():
            if name in names.split():
                return reason
    return None
