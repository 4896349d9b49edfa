"""The mutants of store, core and remoting: what decides there, and the files of tests that notice.

A mutant names no test where those of its module notice it. Must not know: how a mutant is run.
Read on: ``table.py`` for the mutants of the timers.
"""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

BROKER: Final = "embedded_broker/"
UNIT: Final = "tests/unit/embedded_broker/"


def _mutant(module: str, old: str, new: str, *tests: str) -> Mutant:
    """Break a line of a module such as ``store/pull``; ``tests`` are files of unit tests."""
    room, _, name = module.rpartition("/")
    files = tests or (f"{room}/test_{name}",)
    return Mutant(f"{BROKER}{module}.py", old, new, tests=tuple(f"{UNIT}{one}.py" for one in files))


STORE = (
    _mutant(
        "store/checkpoint",
        "            return self.flushed_offset > offset",
        "            return self.flushed_offset >= offset",
    ),
    _mutant("store/checkpoint", "_SAFETY_MS: Final = 3000", "_SAFETY_MS: Final = 2000"),
    _mutant(
        "store/checkpoint",
        "            if crc32(data[: _BEGIN_AT + 8]) == check_sum:",
        "            if True:",
    ),
    _mutant(
        "store/commit_log",
        "        return size + BLANK_SIZE_MIN <= self.files.room",
        "        return size <= self.files.room",
    ),
    _mutant(
        "store/commit_log",
        "        if own_offset != offset or magic not in {MAGIC_V1, MAGIC_V2}:",
        "        if magic not in {MAGIC_V1, MAGIC_V2}:",
    ),
    _mutant(
        "store/commit_log",
        "        if found < _PLACE.size or (size is not None and size != found):",
        "        if found < _PLACE.size:",
    ),
    _mutant(
        "store/commit_log",
        "            if magic != MAGIC_BLANK or size != room:",
        "            if magic != MAGIC_BLANK:",
        "store/test_commit_log",
        "store/test_damage",
        "store/test_recovery",
    ),
    _mutant(
        "store/commit_log",
        "    if check_crc and crc32(part[body_at : topic_at - 1]) & CRC_MASK != crc:",
        "    if False:",
        "store/test_damage",
        "store/test_recovery",
    ),
    _mutant(
        "store/config_files",
        '        if known and b"%d" % self._sum not in known:',
        "        if False:",
    ),
    _mutant(
        "store/config_files",
        "        if self._key is not None and self._key not in content:",
        "        if False:",
    ),
    _mutant(
        "store/config_files",
        "            if self._known_good or self._read(self.path)[0] is not None:",
        "            if True:",
    ),
    _mutant(
        "store/consume_queue",
        "        return None if size <= 0 or size == BLANK_SIZE else (offset, size, tags_code)",
        "        return None if size <= 0 else (offset, size, tags_code)",
    ),
    _mutant(
        "store/consume_queue",
        "            if entry is None or entry[0] >= commit_log_offset:",
        "            if entry is None or entry[0] > commit_log_offset:",
    ),
    _mutant(
        "store/consume_queue",
        "                and (trusted or found[2] == tags_code)",
        "                and (trusted or found[2] != 0)",
        "store/test_consume_queue",
        "store/test_queue_recovery",
        "store/test_recovery",
    ),
    _mutant(
        "store/disk_health",
        "        if problem is not None or self._left_undone is None:",
        "        if True:",
    ),
    _mutant(
        "store/disk_health",
        "            if not error.disk_full:",
        "            if False:",
    ),
    _mutant(
        "store/index_file",
        "    return abs(java_hash) if java_hash != -0x8000_0000 else 0",
        "    return abs(java_hash)",
    ),
    _mutant(
        "store/index_file",
        "            if previous >= number:  # a damaged chain must not run in circles",
        "            if False:",
    ),
    _mutant(
        "store/index_file",
        "        return first <= end_ms and begin_ms <= max(first, last) + 999",
        "        return first <= end_ms and begin_ms <= max(first, last)",
    ),
    _mutant(
        "store/filter_budget",
        "        if self.left < 0:",
        "        if self.left < -1_000_000:",
    ),
    _mutant(
        "store/filter_budget",
        '        self.room.take(LOOK_COST + len(value or ""))',
        "        self.room.take(0)",
    ),
    _mutant(
        "store/key_index",
        "        if record.sys_flag & TRANSACTION_MASK == TRANSACTION_ROLLBACK:",
        "        if False:",
    ),
    _mutant(
        "store/key_index",
        "            while len(self._files) > 1 and self._files[0].end_offset < offset:",
        "            while self._files and self._files[0].end_offset < offset:",
        "store/test_key_index",
        "lifecycle/test_aging",
    ),
    _mutant(
        "store/key_index",
        "found.is_full and found.end_timestamp < index_msg_timestamp",
        "True",
    ),
    _mutant(
        "store/memory_budget",
        "        self.is_full = 0 < self.bytes_max <= self.used",
        "        self.is_full = 0 < self.bytes_max < self.used",
    ),
    _mutant(
        "store/memory_budget",
        "            if most and used > most:",
        "            if most and used >= most:",
    ),
    _mutant(
        "store/memory_budget",
        "        if self.bytes_max and used > self.pressed_at:",
        "        if used > self.pressed_at:",
    ),
    _mutant(
        "store/queue_recovery",
        "        if not 0 <= number * _RECORD_LEAST <= offset and not self._may_have(parts):",
        "        if False:",
    ),
    _mutant(
        "store/queue_recovery",
        "        if not 0 <= number * _RECORD_LEAST <= offset and not self._may_have(parts):",
        "        if number * _RECORD_LEAST > offset and not self._may_have(parts):",
    ),
    _mutant(
        "store/queue_recovery",
        "        if holder and holder[0] > offset and self._holds_its_own(log, queue, one.number):",
        "        if False:",
    ),
    _mutant(
        "store/pull",
        "        one = offset == high",
        "        one = offset <= high + 1",
    ),
    _mutant(
        "store/pull",
        "    if offset < low:",
        "    if offset <= low:",
    ),
    _mutant(
        "store/pull",
        "        bytes_max = min(max(max_bytes, 100), bytes_max)",
        "        bytes_max = max(max_bytes, 100)",
        "store/test_pull",
        "remoting/handlers/consume/test_pull_message",
    ),
    _mutant(
        "store/pull",
        "    nearer_before = timestamp - store_time(before[0]) <= store_time(after[0]) - timestamp",
        "    nearer_before = timestamp - store_time(before[0]) < store_time(after[0]) - timestamp",
    ),
    _mutant(
        "store/put_checks",
        "    if body_size > body_size_max:",
        "    if body_size >= body_size_max:",
        "store/test_message_store",
    ),
    _mutant(
        "store/put_checks",
        "    limit = _RETRY_TOPIC_SIZE_MAX if is_retry_topic(topic) else _TOPIC_SIZE_MAX",
        "    limit = _TOPIC_SIZE_MAX",
        "store/test_message_store",
    ),
    _mutant(
        "store/put_checks",
        "    if len(properties) > PROPERTIES_SIZE_MAX:",
        "    if len(properties) >= PROPERTIES_SIZE_MAX:",
        "store/test_message_store",
    ),
    _mutant(
        "store/recovery",
        "    elif begin > marked:",
        "    elif False:",
        "store/test_lost_begin",
    ),
    _mutant(
        "store/recovery",
        "    if not opening.clean and not checkpoint.knows_durable(end, newest_ms):",
        "    if not opening.clean:",
        "store/test_damage",
        "store/test_lost_begin",
        "store/test_recovery",
    ),
    _mutant(
        "store/retention",
        "            if self._clock.aged_ms(stored_ms) < reserved_ms:",
        "            if self._clock.aged_ms(stored_ms) <= reserved_ms:",
    ),
    _mutant(
        "store/retention",
        "        for start, _ in files[:-1][:files_max]:",
        "        for start, _ in files[:files_max]:",
    ),
)
CORE = (
    _mutant(
        "core/consume",
        "        if not 0 <= pull.queue_id < topic.read_queue_nums:",
        "        if not 0 <= pull.queue_id <= topic.read_queue_nums:",
    ),
    _mutant(
        "core/consume",
        "        if live.is_broadcasting and not group.consume_broadcast_enable:",
        "        if False:",
    ),
    _mutant(
        "core/consume",
        "        if data.sub_version < pull.sub_version:",
        "        if data.sub_version <= pull.sub_version:",
        "remoting/handlers/consume/test_pull_message",
    ),
    _mutant(
        "core/consume",
        "        if kept.client_version < sub_version:",
        "        if False:",
        "remoting/handlers/consume/test_pull_message",
    ),
    _mutant(
        "core/pop/acks",
        "        if not 0 <= queue_id < queues:",
        "        if False:",
        "core/pop/test_service",
        "remoting/handlers/pop/test_ack_message",
    ),
    _mutant(
        "core/pop/ordered",
        "        return block is None or block.free_ms(at_ms - 1) != at_ms",
        "        return block is None",
    ),
    _mutant(
        "core/pop/renewals",
        "        if len(self._held) >= HELD_MAX:",
        "        if len(self._held) > HELD_MAX:",
    ),
    _mutant(
        "core/pop/renewals",
        "            self._plan(key, held, now_ms + AGAIN_MS)",
        "            del self._held[key]",
    ),
    _mutant(
        "core/pop/renewals",
        "        if one.peer.closed or now_ms >= held.first_ms + LONGEST_MS:",
        "        if now_ms >= held.first_ms + LONGEST_MS:",
    ),
    _mutant(
        "core/produce",
        "        if not budget.has_room():",
        "        if False:",
        "lifecycle/test_memory_room",
    ),
    _mutant(
        "core/produce",
        "        if len(bodies) > most:",
        "        if len(bodies) >= most:",
        "remoting/handlers/test_limits_of_requests",
    ),
    _mutant(
        "core/produce",
        "        if size > size_max:",
        "        if False:",
        "remoting/handlers/test_limits_of_requests",
        "remoting/handlers/send/test_send_message",
    ),
    _mutant(
        "core/queries",
        "        if record is None or record.offset_msg_id != offset_id.upper():",
        "        if record is None:",
    ),
    _mutant(
        "core/queries",
        "        carrying = [at for at in places if _carries(store.queued(at), topic, key)]",
        "        carrying = list(places)",
        "core/test_queries",
        "remoting/handlers/consume/test_query_message",
    ),
    _mutant(
        "core/retries",
        "tried > limit or (tried == limit and not self._env.profile.retries_at_limit)",
        "tried > limit",
        "core/test_retries",
        "remoting/handlers/send/test_send_back",
    ),
    _mutant(
        "core/retries",
        "        if tried >= _limit(group, asked.max_reconsume_times) or asked.delay_level < 0:",
        "        if tried > _limit(group, asked.max_reconsume_times) or asked.delay_level < 0:",
        "core/test_retries",
        "remoting/handlers/send/test_send_back",
    ),
    _mutant(
        "core/retries",
        "    copied.setdefault(Prop.RETRY_TOPIC, record.topic)",
        "    copied[Prop.RETRY_TOPIC] = record.topic",
        "core/test_retries",
        "remoting/handlers/send/test_send_back",
    ),
    _mutant(
        "core/retry_policies",
        "    return value if type(value) is int and value > 0 else otherwise",
        "    return value if type(value) is int and value >= 0 else otherwise",
    ),
    _mutant(
        "core/retry_policies",
        "        return self.waits_ms[min(max(tried, 0) + _SKIPPED, len(self.waits_ms) - 1)]",
        "        return self.waits_ms[min(tried + _SKIPPED, len(self.waits_ms) - 1)]",
    ),
    _mutant(
        "core/send_gate",
        "        if wanted >= queues or (wanted < 0 and not topic.write_queue_nums):",
        "        if wanted > queues or (wanted < 0 and not topic.write_queue_nums):",
    ),
    _mutant(
        "core/send_gate",
        "        if not self._broker_perm & PERM_WRITE:",
        "        if not self._broker_perm:",
        "core/test_send_gate",
        "remoting/handlers/send/test_send_message",
    ),
    _mutant(
        "core/send_gate",
        "        if message.terms.sys_flag & TRANSACTION_MASK == TRANSACTION_PREPARED:",
        "        if False:",
        "core/test_send_gate",
        "remoting/handlers/send/test_send_message",
    ),
    _mutant(
        "core/send_gate",
        "                if wanted == str(count):",
        "                if wanted:",
        "core/test_send_gate",
        "remoting/handlers/send/test_batch_topics",
    ),
    _mutant(
        "core/transactions/ending",
        "        if age_ms > limit_ms:",
        "        if age_ms >= limit_ms:",
    ),
    _mutant(
        "core/transactions/ending",
        "    if half.queue_offset != ending.queue_offset:",
        "    if False:",
        "core/transactions/test_ending",
        "remoting/handlers/send/test_end_transaction",
    ),
    _mutant(
        "core/transactions/ending",
        "    if group != ending.producer_group:",
        "    if False:",
        "core/transactions/test_ending",
        "remoting/handlers/send/test_end_transaction",
    ),
    _mutant(
        "core/transactions/half",
        "    return seconds * 1000 if seconds > 0 else None",
        "    return seconds * 1000 if seconds >= 0 else None",
    ),
    _mutant(
        "core/transactions/half",
        "    return not (reconsume_times > 0 and _number(properties.get(Prop.DELAY), 0) > 0)",
        "    return True",
    ),
    _mutant(
        "core/waiters",
        "        if self._count >= PARKED_MAX:",
        "        if self._count > PARKED_MAX:",
    ),
    _mutant(
        "core/waiters",
        "        if waiter.due_ms <= self._session.now_ms:",
        "        if waiter.due_ms < self._session.now_ms:",
    ),
    _mutant(
        "core/waiters",
        "            if waiter.asked is asked:",
        "            if True:",
    ),
)
REMOTING = (
    _mutant(
        "remoting/answer_patterns",
        '        ).replace(b"%", b"%%")',
        '        ).replace(b"%", b"%")',
    ),
    _mutant(
        "remoting/connection_limits",
        "        if self.unfinished > self.unfinished_max:",
        "        if self.unfinished >= self.unfinished_max:",
    ),
    _mutant(
        "remoting/connection_limits",
        "        before, enough = total(), most - most // 8",
        "        before, enough = total(), most",
    ),
    _mutant(
        "remoting/connection_limits",
        "        elif self._highest - now >= SPARE:",
        "        elif self._highest - now > SPARE:",
    ),
    _mutant(
        "remoting/connection_limits",
        "        if not found.holders:",
        "        if found.holders < 0:",
    ),
    _mutant(
        "remoting/endpoint",
        "            if size > BODY_BYTES_MAX:",
        "            if False:",
        "remoting/test_long_requests",
    ),
    _mutant(
        "remoting/endpoint",
        "                    if len(frame.header) > HEADER_BYTES_MAX:",
        "                    if len(frame.header) >= HEADER_BYTES_MAX:",
    ),
    _mutant(
        "remoting/endpoint",
        "        if command.flag & FLAG_ONEWAY:",
        "        if False:",
    ),
    _mutant(
        "remoting/endpoint",
        "        if remark is not None and len(remark) > REMARK_MAX:",
        "        if False:",
    ),
    _mutant(
        "remoting/endpoint",
        "        if not request.connection.closed:",
        "        if True:",
    ),
    _mutant(
        "remoting/idle_connections",
        "        used_since_ms = session.now_ms - self.most_ms + 1",
        "        used_since_ms = session.now_ms - self.most_ms",
    ),
    _mutant(
        "remoting/idle_connections",
        "            if connection.is_stream and connection.used_ms < used_since_ms:",
        "            if connection.used_ms < used_since_ms:",
    ),
    _mutant(
        "remoting/long_requests",
        "            if self._closed or self._waiting >= WAITING_MAX:",
        "            if self._closed or self._waiting > WAITING_MAX:",
    ),
    _mutant(
        "remoting/long_requests",
        "call is None and steps >= STEPS_AT_ONCE",
        "call is None and steps > STEPS_AT_ONCE",
    ),
    _mutant(
        "remoting/rate_limited_log",
        "            if self._written_ns is not None and now_ns - self._written_ns < EVERY_NS:",
        "            if False:",
    ),
    _mutant(
        "remoting/request_faults",
        "self._seen < self._nth or (self._times is not None and self.hits >= self._times)",
        "self._times is not None and self.hits >= self._times",
    ),
    _mutant(
        "remoting/request_faults",
        '        if fault.verb == "close_after":',
        "        if False:",
    ),
    _mutant(
        "remoting/turns",
        "        (self._again if again else self._fresh).append(step)",
        "        self._fresh.append(step)",
    ),
    _mutant(
        "remoting/turns",
        "            if fresh or again:",
        "            if fresh:",
    ),
)

ROOMS = (*STORE, *CORE, *REMOTING)
