"""Getters and setters of the settings that clients share, and of those of a producer.

Bases of the clients, one line a method, as ``names.py`` lists them. Must not know what a setting
does: `rocketmq_py.ClientConfig` and `rocketmq_py.ProducerConfig` say it.
"""

from __future__ import annotations

from typing import ClassVar, Final

from compat.java.spelled import JavaNames
from rocketmq_py import AccessChannel as Channel
from rocketmq_py import ClientConfig, CompressionType, ProducerConfig
from rocketmq_py.config import TracedConfig


class AccessChannel:
    """Whose brokers they are, as `setAccessChannel` takes it."""

    LOCAL: Final = "LOCAL"
    CLOUD: Final = "CLOUD"


class ClientNames(JavaNames, ClientConfig):
    """Names of every client: Java's ``ClientConfig``."""

    _CLOSED: ClassVar[bool] = True

    def getNamesrvAddr(self) -> str:
        """Java's spelling of `namesrv_addr`."""
        return self.namesrv_addr

    def setNamesrvAddr(self, namesrvAddr: str) -> None:
        """Java's spelling of ``namesrv_addr = ...``."""
        self.namesrv_addr = namesrvAddr

    def getClientIP(self) -> str:
        """Java's spelling of `client_ip`."""
        return self.client_ip

    def setClientIP(self, clientIP: str) -> None:
        """Java's spelling of ``client_ip = ...``."""
        self.client_ip = clientIP

    def getInstanceName(self) -> str:
        """Java's spelling of `instance_name`."""
        return self.instance_name

    def setInstanceName(self, instanceName: str) -> None:
        """Java's spelling of ``instance_name = ...``."""
        self.instance_name = instanceName

    def getUnitName(self) -> str:
        """Java's spelling of `unit_name`."""
        return self.unit_name

    def setUnitName(self, unitName: str) -> None:
        """Java's spelling of ``unit_name = ...``."""
        self.unit_name = unitName

    def isUnitMode(self) -> bool:
        """Java's spelling of `unit_mode`."""
        return self.unit_mode

    def setUnitMode(self, unitMode: bool) -> None:
        """Java's spelling of ``unit_mode = ...``."""
        self.unit_mode = unitMode

    def getNamespace(self) -> str:
        """Java's spelling of `namespace`."""
        return self.namespace

    def setNamespace(self, namespace: str) -> None:
        """Java's spelling of ``namespace = ...``."""
        self.namespace = namespace

    def getNamespaceV2(self) -> str:
        """Java's spelling of `namespace_v2`."""
        return self.namespace_v2

    def setNamespaceV2(self, namespaceV2: str) -> None:
        """Java's spelling of ``namespace_v2 = ...``."""
        self.namespace_v2 = namespaceV2

    def getClientCallbackExecutorThreads(self) -> int:
        """Java's spelling of `client_callback_executor_threads`."""
        return self.client_callback_executor_threads

    def setClientCallbackExecutorThreads(self, clientCallbackExecutorThreads: int) -> None:
        """Java's spelling of ``client_callback_executor_threads = ...``."""
        self.client_callback_executor_threads = clientCallbackExecutorThreads

    def getPollNameServerInterval(self) -> int:
        """Java's spelling of `poll_name_server_interval`."""
        return self.poll_name_server_interval

    def setPollNameServerInterval(self, pollNameServerInterval: int) -> None:
        """Java's spelling of ``poll_name_server_interval = ...``."""
        self.poll_name_server_interval = pollNameServerInterval

    def getHeartbeatBrokerInterval(self) -> int:
        """Java's spelling of `heartbeat_broker_interval`."""
        return self.heartbeat_broker_interval

    def setHeartbeatBrokerInterval(self, heartbeatBrokerInterval: int) -> None:
        """Java's spelling of ``heartbeat_broker_interval = ...``."""
        self.heartbeat_broker_interval = heartbeatBrokerInterval

    def getPersistConsumerOffsetInterval(self) -> int:
        """Java's spelling of `persist_consumer_offset_interval`."""
        return self.persist_consumer_offset_interval

    def setPersistConsumerOffsetInterval(self, persistConsumerOffsetInterval: int) -> None:
        """Java's spelling of ``persist_consumer_offset_interval = ...``."""
        self.persist_consumer_offset_interval = persistConsumerOffsetInterval

    def getMqClientApiTimeout(self) -> int:
        """Java's spelling of `mq_client_api_timeout`."""
        return self.mq_client_api_timeout

    def setMqClientApiTimeout(self, mqClientApiTimeout: int) -> None:
        """Java's spelling of ``mq_client_api_timeout = ...``."""
        self.mq_client_api_timeout = mqClientApiTimeout

    def isVipChannelEnabled(self) -> bool:
        """Java's spelling of `vip_channel_enabled`."""
        return self.vip_channel_enabled

    def setVipChannelEnabled(self, vipChannelEnabled: bool) -> None:
        """Java's spelling of ``vip_channel_enabled = ...``."""
        self.vip_channel_enabled = vipChannelEnabled

    def isUseTLS(self) -> bool:
        """Java's spelling of `use_tls`."""
        return self.use_tls

    def setUseTLS(self, useTLS: bool) -> None:
        """Java's spelling of ``use_tls = ...``."""
        self.use_tls = useTLS

    def toString(self) -> str:
        """Java's spelling of ``str(client)``."""
        return str(self)


class TracedNames(ClientNames, TracedConfig):
    """Names of clients that can note the way of their messages."""

    def isEnableTrace(self) -> bool:
        """Java's spelling of `enable_trace`."""
        return self.enable_trace

    def setEnableTrace(self, enableTrace: bool) -> None:
        """Java's spelling of ``enable_trace = ...``."""
        self.enable_trace = enableTrace

    def getTraceTopic(self) -> str:
        """Java's spelling of `trace_topic`."""
        return self.trace_topic

    def setTraceTopic(self, traceTopic: str) -> None:
        """Java's spelling of ``trace_topic = ...``."""
        self.trace_topic = traceTopic

    def getAccessChannel(self) -> Channel:
        """Java's spelling of `access_channel`."""
        return self.access_channel

    def setAccessChannel(self, accessChannel: Channel) -> None:
        """Java's spelling of ``access_channel = ...``."""
        self.access_channel = accessChannel


class ProducerNames(TracedNames, ProducerConfig):
    """Names of producers' settings."""

    def getCreateTopicKey(self) -> str:
        """Java's spelling of `create_topic_key`."""
        return self.create_topic_key

    def setCreateTopicKey(self, createTopicKey: str) -> None:
        """Java's spelling of ``create_topic_key = ...``."""
        self.create_topic_key = createTopicKey

    def getDefaultTopicQueueNums(self) -> int:
        """Java's spelling of `default_topic_queue_nums`."""
        return self.default_topic_queue_nums

    def setDefaultTopicQueueNums(self, defaultTopicQueueNums: int) -> None:
        """Java's spelling of ``default_topic_queue_nums = ...``."""
        self.default_topic_queue_nums = defaultTopicQueueNums

    def getSendMsgTimeout(self) -> int:
        """Java's spelling of `send_msg_timeout`."""
        return self.send_msg_timeout

    def setSendMsgTimeout(self, sendMsgTimeout: int) -> None:
        """Java's spelling of ``send_msg_timeout = ...``."""
        self.send_msg_timeout = sendMsgTimeout

    def getSendMsgMaxTimeoutPerRequest(self) -> int:
        """Java's spelling of `send_msg_max_timeout_per_request`."""
        return self.send_msg_max_timeout_per_request

    def setSendMsgMaxTimeoutPerRequest(self, sendMsgMaxTimeoutPerRequest: int) -> None:
        """Java's spelling of ``send_msg_max_timeout_per_request = ...``."""
        self.send_msg_max_timeout_per_request = sendMsgMaxTimeoutPerRequest

    def getCompressMsgBodyOverHowmuch(self) -> int:
        """Java's spelling of `compress_msg_body_over_howmuch`."""
        return self.compress_msg_body_over_howmuch

    def setCompressMsgBodyOverHowmuch(self, compressMsgBodyOverHowmuch: int) -> None:
        """Java's spelling of ``compress_msg_body_over_howmuch = ...``."""
        self.compress_msg_body_over_howmuch = compressMsgBodyOverHowmuch

    def getCompressLevel(self) -> int:
        """Java's spelling of `compress_level`."""
        return self.compress_level

    def setCompressLevel(self, compressLevel: int) -> None:
        """Java's spelling of ``compress_level = ...``."""
        self.compress_level = compressLevel

    def getCompressType(self) -> CompressionType:
        """Java's spelling of `compress_type`."""
        return self.compress_type

    def setCompressType(self, compressType: CompressionType) -> None:
        """Java's spelling of ``compress_type = ...``."""
        self.compress_type = compressType

    def getRetryTimesWhenSendFailed(self) -> int:
        """Java's spelling of `retry_times_when_send_failed`."""
        return self.retry_times_when_send_failed

    def setRetryTimesWhenSendFailed(self, retryTimesWhenSendFailed: int) -> None:
        """Java's spelling of ``retry_times_when_send_failed = ...``."""
        self.retry_times_when_send_failed = retryTimesWhenSendFailed

    def getRetryTimesWhenSendAsyncFailed(self) -> int:
        """Java's spelling of `retry_times_when_send_async_failed`."""
        return self.retry_times_when_send_async_failed

    def setRetryTimesWhenSendAsyncFailed(self, retryTimesWhenSendAsyncFailed: int) -> None:
        """Java's spelling of ``retry_times_when_send_async_failed = ...``."""
        self.retry_times_when_send_async_failed = retryTimesWhenSendAsyncFailed

    def isRetryAnotherBrokerWhenNotStoreOK(self) -> bool:
        """Java's spelling of `retry_another_broker_when_not_store_ok`."""
        return self.retry_another_broker_when_not_store_ok

    def setRetryAnotherBrokerWhenNotStoreOK(self, retryAnotherBrokerWhenNotStoreOK: bool) -> None:
        """Java's spelling of ``retry_another_broker_when_not_store_ok = ...``."""
        self.retry_another_broker_when_not_store_ok = retryAnotherBrokerWhenNotStoreOK

    def getRetryResponseCodes(self) -> frozenset[int]:
        """Java's spelling of `retry_response_codes`."""
        return self.retry_response_codes

    def getMaxMessageSize(self) -> int:
        """Java's spelling of `max_message_size`."""
        return self.max_message_size

    def setMaxMessageSize(self, maxMessageSize: int) -> None:
        """Java's spelling of ``max_message_size = ...``."""
        self.max_message_size = maxMessageSize

    def isSendMessageWithVIPChannel(self) -> bool:
        """Java's spelling of `vip_channel_enabled`."""
        return self.vip_channel_enabled

    def setSendMessageWithVIPChannel(self, sendMessageWithVIPChannel: bool) -> None:
        """Java's spelling of ``vip_channel_enabled = ...``."""
        self.vip_channel_enabled = sendMessageWithVIPChannel

    def isSendLatencyFaultEnable(self) -> bool:
        """Java's spelling of `send_latency_enable`."""
        return self.send_latency_enable

    def setSendLatencyFaultEnable(self, sendLatencyFaultEnable: bool) -> None:
        """Java's spelling of ``send_latency_enable = ...``."""
        self.send_latency_enable = sendLatencyFaultEnable

    def isSendLatencyEnable(self) -> bool:
        """Java's spelling of `send_latency_enable`."""
        return self.send_latency_enable

    def setSendLatencyEnable(self, sendLatencyEnable: bool) -> None:
        """Java's spelling of ``send_latency_enable = ...``."""
        self.send_latency_enable = sendLatencyEnable

    def isStartDetectorEnable(self) -> bool:
        """Java's spelling of `start_detector_enable`."""
        return self.start_detector_enable

    def setStartDetectorEnable(self, startDetectorEnable: bool) -> None:
        """Java's spelling of ``start_detector_enable = ...``."""
        self.start_detector_enable = startDetectorEnable

    def getDetectInterval(self) -> int:
        """Java's spelling of `detect_interval`."""
        return self.detect_interval

    def setDetectInterval(self, detectInterval: int) -> None:
        """Java's spelling of ``detect_interval = ...``."""
        self.detect_interval = detectInterval

    def getDetectTimeout(self) -> int:
        """Java's spelling of `detect_timeout`."""
        return self.detect_timeout

    def setDetectTimeout(self, detectTimeout: int) -> None:
        """Java's spelling of ``detect_timeout = ...``."""
        self.detect_timeout = detectTimeout
