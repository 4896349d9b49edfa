"""Getters and setters of consumers' settings, one line a method, as ``names.py`` lists them.

Must not know what a setting does: `rocketmq_py.PushConsumerConfig` and
`rocketmq_py.LitePullConsumerConfig` say it.
"""

from __future__ import annotations

from datetime import datetime

from compat.java.settings import TracedNames
from rocketmq_py import (
    AllocateMessageQueueStrategy,
    ConsumeFromWhere,
    ConsumerConfig,
    LitePullConsumerConfig,
    MessageModel,
    PushConsumerConfig,
)


class ConsumerNames(TracedNames, ConsumerConfig):
    """Names of every consumer's settings."""

    def getMessageModel(self) -> MessageModel:
        """Java's spelling of `message_model`."""
        return self.message_model

    def setMessageModel(self, messageModel: MessageModel) -> None:
        """Java's spelling of ``message_model = ...``."""
        self.message_model = messageModel

    def getConsumeFromWhere(self) -> ConsumeFromWhere:
        """Java's spelling of `consume_from_where`."""
        return self.consume_from_where

    def setConsumeFromWhere(self, consumeFromWhere: ConsumeFromWhere) -> None:
        """Java's spelling of ``consume_from_where = ...``."""
        self.consume_from_where = consumeFromWhere

    def getConsumeTimestamp(self) -> str | datetime:
        """Java's spelling of `consume_timestamp`."""
        return self.consume_timestamp

    def setConsumeTimestamp(self, consumeTimestamp: str | datetime) -> None:
        """Java's spelling of ``consume_timestamp = ...``."""
        self.consume_timestamp = consumeTimestamp

    def getAllocateMessageQueueStrategy(self) -> AllocateMessageQueueStrategy:
        """Java's spelling of `allocate_strategy`."""
        return self.allocate_strategy

    def setAllocateMessageQueueStrategy(
        self, allocateMessageQueueStrategy: AllocateMessageQueueStrategy
    ) -> None:
        """Java's spelling of ``allocate_strategy = ...``."""
        self.allocate_strategy = allocateMessageQueueStrategy

    def getPullThresholdForQueue(self) -> int:
        """Java's spelling of `pull_threshold_for_queue`."""
        return self.pull_threshold_for_queue

    def setPullThresholdForQueue(self, pullThresholdForQueue: int) -> None:
        """Java's spelling of ``pull_threshold_for_queue = ...``."""
        self.pull_threshold_for_queue = pullThresholdForQueue

    def getPullThresholdSizeForQueue(self) -> int:
        """Java's spelling of `pull_threshold_size_for_queue`."""
        return self.pull_threshold_size_for_queue

    def setPullThresholdSizeForQueue(self, pullThresholdSizeForQueue: int) -> None:
        """Java's spelling of ``pull_threshold_size_for_queue = ...``."""
        self.pull_threshold_size_for_queue = pullThresholdSizeForQueue

    def getPullBatchSize(self) -> int:
        """Java's spelling of `pull_batch_size`."""
        return self.pull_batch_size

    def setPullBatchSize(self, pullBatchSize: int) -> None:
        """Java's spelling of ``pull_batch_size = ...``."""
        self.pull_batch_size = pullBatchSize

    def getPullTimeDelayMillsWhenException(self) -> int:
        """Java's spelling of `pull_time_delay_millis_when_exception`."""
        return self.pull_time_delay_millis_when_exception

    def setPullTimeDelayMillsWhenException(self, pullTimeDelayMillsWhenException: int) -> None:
        """Java's spelling of ``pull_time_delay_millis_when_exception = ...``."""
        self.pull_time_delay_millis_when_exception = pullTimeDelayMillsWhenException


class PushConsumerNames(ConsumerNames, PushConsumerConfig):
    """Names of a push consumer's settings."""

    def getPullThresholdForTopic(self) -> int:
        """Java's spelling of `pull_threshold_for_topic`."""
        return self.pull_threshold_for_topic

    def setPullThresholdForTopic(self, pullThresholdForTopic: int) -> None:
        """Java's spelling of ``pull_threshold_for_topic = ...``."""
        self.pull_threshold_for_topic = pullThresholdForTopic

    def getPullThresholdSizeForTopic(self) -> int:
        """Java's spelling of `pull_threshold_size_for_topic`."""
        return self.pull_threshold_size_for_topic

    def setPullThresholdSizeForTopic(self, pullThresholdSizeForTopic: int) -> None:
        """Java's spelling of ``pull_threshold_size_for_topic = ...``."""
        self.pull_threshold_size_for_topic = pullThresholdSizeForTopic

    def getPullInterval(self) -> int:
        """Java's spelling of `pull_interval`."""
        return self.pull_interval

    def setPullInterval(self, pullInterval: int) -> None:
        """Java's spelling of ``pull_interval = ...``."""
        self.pull_interval = pullInterval

    def getPullBatchSizeInBytes(self) -> int:
        """Java's spelling of `pull_batch_size_in_bytes`."""
        return self.pull_batch_size_in_bytes

    def setPullBatchSizeInBytes(self, pullBatchSizeInBytes: int) -> None:
        """Java's spelling of ``pull_batch_size_in_bytes = ...``."""
        self.pull_batch_size_in_bytes = pullBatchSizeInBytes

    def isPostSubscriptionWhenPull(self) -> bool:
        """Java's spelling of `post_subscription_when_pull`."""
        return self.post_subscription_when_pull

    def setPostSubscriptionWhenPull(self, postSubscriptionWhenPull: bool) -> None:
        """Java's spelling of ``post_subscription_when_pull = ...``."""
        self.post_subscription_when_pull = postSubscriptionWhenPull

    def getConsumeThreadMin(self) -> int:
        """Java's spelling of `consume_thread_min`."""
        return self.consume_thread_min

    def setConsumeThreadMin(self, consumeThreadMin: int) -> None:
        """Java's spelling of ``consume_thread_min = ...``."""
        self.consume_thread_min = consumeThreadMin

    def getConsumeThreadMax(self) -> int:
        """Java's spelling of `consume_thread_max`."""
        return self.consume_thread_max

    def setConsumeThreadMax(self, consumeThreadMax: int) -> None:
        """Java's spelling of ``consume_thread_max = ...``."""
        self.consume_thread_max = consumeThreadMax

    def getConsumeMessageBatchMaxSize(self) -> int:
        """Java's spelling of `consume_message_batch_max_size`."""
        return self.consume_message_batch_max_size

    def setConsumeMessageBatchMaxSize(self, consumeMessageBatchMaxSize: int) -> None:
        """Java's spelling of ``consume_message_batch_max_size = ...``."""
        self.consume_message_batch_max_size = consumeMessageBatchMaxSize

    def getConsumeConcurrentlyMaxSpan(self) -> int:
        """Java's spelling of `consume_concurrently_max_span`."""
        return self.consume_concurrently_max_span

    def setConsumeConcurrentlyMaxSpan(self, consumeConcurrentlyMaxSpan: int) -> None:
        """Java's spelling of ``consume_concurrently_max_span = ...``."""
        self.consume_concurrently_max_span = consumeConcurrentlyMaxSpan

    def getMaxReconsumeTimes(self) -> int:
        """Java's spelling of `max_reconsume_times`."""
        return self.max_reconsume_times

    def setMaxReconsumeTimes(self, maxReconsumeTimes: int) -> None:
        """Java's spelling of ``max_reconsume_times = ...``."""
        self.max_reconsume_times = maxReconsumeTimes

    def getSuspendCurrentQueueTimeMillis(self) -> int:
        """Java's spelling of `suspend_current_queue_time_millis`."""
        return self.suspend_current_queue_time_millis

    def setSuspendCurrentQueueTimeMillis(self, suspendCurrentQueueTimeMillis: int) -> None:
        """Java's spelling of ``suspend_current_queue_time_millis = ...``."""
        self.suspend_current_queue_time_millis = suspendCurrentQueueTimeMillis

    def getConsumeTimeout(self) -> int:
        """Java's spelling of `consume_timeout`."""
        return self.consume_timeout

    def setConsumeTimeout(self, consumeTimeout: int) -> None:
        """Java's spelling of ``consume_timeout = ...``."""
        self.consume_timeout = consumeTimeout

    def getAwaitTerminationMillisWhenShutdown(self) -> int:
        """Java's spelling of `await_termination_millis_when_shutdown`."""
        return self.await_termination_millis_when_shutdown

    def setAwaitTerminationMillisWhenShutdown(
        self, awaitTerminationMillisWhenShutdown: int
    ) -> None:
        """Java's spelling of ``await_termination_millis_when_shutdown = ...``."""
        self.await_termination_millis_when_shutdown = awaitTerminationMillisWhenShutdown

    def isClientRebalance(self) -> bool:
        """Java's spelling of `client_rebalance`."""
        return self.client_rebalance

    def setClientRebalance(self, clientRebalance: bool) -> None:
        """Java's spelling of ``client_rebalance = ...``."""
        self.client_rebalance = clientRebalance

    def getPopInvisibleTime(self) -> int:
        """Java's spelling of `pop_invisible_time`."""
        return self.pop_invisible_time

    def setPopInvisibleTime(self, popInvisibleTime: int) -> None:
        """Java's spelling of ``pop_invisible_time = ...``."""
        self.pop_invisible_time = popInvisibleTime

    def getPopBatchNums(self) -> int:
        """Java's spelling of `pop_batch_nums`."""
        return self.pop_batch_nums

    def setPopBatchNums(self, popBatchNums: int) -> None:
        """Java's spelling of ``pop_batch_nums = ...``."""
        self.pop_batch_nums = popBatchNums

    def getPopThresholdForQueue(self) -> int:
        """Java's spelling of `pop_threshold_for_queue`."""
        return self.pop_threshold_for_queue

    def setPopThresholdForQueue(self, popThresholdForQueue: int) -> None:
        """Java's spelling of ``pop_threshold_for_queue = ...``."""
        self.pop_threshold_for_queue = popThresholdForQueue


class LitePullConsumerNames(ConsumerNames, LitePullConsumerConfig):
    """Names of a lite pull consumer's settings."""

    def isAutoCommit(self) -> bool:
        """Java's spelling of `auto_commit`."""
        return self.auto_commit

    def setAutoCommit(self, autoCommit: bool) -> None:
        """Java's spelling of ``auto_commit = ...``."""
        self.auto_commit = autoCommit

    def getPollTimeoutMillis(self) -> int:
        """Java's spelling of `poll_timeout_millis`."""
        return self.poll_timeout_millis

    def setPollTimeoutMillis(self, pollTimeoutMillis: int) -> None:
        """Java's spelling of ``poll_timeout_millis = ...``."""
        self.poll_timeout_millis = pollTimeoutMillis

    def getPullThresholdForAll(self) -> int:
        """Java's spelling of `pull_threshold_for_all`."""
        return self.pull_threshold_for_all

    def setPullThresholdForAll(self, pullThresholdForAll: int) -> None:
        """Java's spelling of ``pull_threshold_for_all = ...``."""
        self.pull_threshold_for_all = pullThresholdForAll

    def getConsumeMaxSpan(self) -> int:
        """Java's spelling of `consume_max_span`."""
        return self.consume_max_span

    def setConsumeMaxSpan(self, consumeMaxSpan: int) -> None:
        """Java's spelling of ``consume_max_span = ...``."""
        self.consume_max_span = consumeMaxSpan

    def getTopicMetadataCheckIntervalMillis(self) -> int:
        """Java's spelling of `topic_metadata_check_interval`."""
        return self.topic_metadata_check_interval

    def setTopicMetadataCheckIntervalMillis(self, topicMetadataCheckIntervalMillis: int) -> None:
        """Java's spelling of ``topic_metadata_check_interval = ...``."""
        self.topic_metadata_check_interval = topicMetadataCheckIntervalMillis

    def isEnableMsgTrace(self) -> bool:
        """Java's spelling of `enable_trace`."""
        return self.enable_trace

    def setEnableMsgTrace(self, enableMsgTrace: bool) -> None:
        """Java's spelling of ``enable_trace = ...``."""
        self.enable_trace = enableMsgTrace

    def getCustomizedTraceTopic(self) -> str:
        """Java's spelling of `trace_topic`."""
        return self.trace_topic

    def setCustomizedTraceTopic(self, customizedTraceTopic: str) -> None:
        """Java's spelling of ``trace_topic = ...``."""
        self.trace_topic = customizedTraceTopic
