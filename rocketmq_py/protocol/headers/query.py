"""What looking for messages says in its headers: requests 12 and 33."""

from __future__ import annotations

from rocketmq_py.protocol.headers import Flag, Header, Int32, Int64, Text, optional, required


class QueryMessageRequestHeader(Header):
    """12: records of a topic with a key and a store time in the range, both ends included.

    `unique_key_query` is no field of the original's class but an extra field that Java sends with
    every 12; only the value `true` makes `key` a UNIQ_KEY.
    """

    topic: Text = required("topic")
    key: Text = required("key")
    max_num: Int32 = required("maxNum")
    begin_timestamp: Int64 = required("beginTimestamp")
    end_timestamp: Int64 = required("endTimestamp")
    unique_key_query: Flag | None = optional("_UNIQUE_KEY_QUERY")
    broker_name: Text | None = optional("bname")


class QueryMessageResponseHeader(Header):
    """Answer to 12: how far the index has come."""

    index_last_update_timestamp: Int64 = required("indexLastUpdateTimestamp")
    index_last_update_phyoffset: Int64 = required("indexLastUpdatePhyoffset")


class ViewMessageRequestHeader(Header):
    """33: the record at a commit log offset."""

    offset: Int64 = required("offset")
    topic: Text | None = optional("topic")
    broker_name: Text | None = optional("bname")
