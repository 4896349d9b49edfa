"""The administrator's client: every act as a blocking, typed call.

Each call is one line: which of ``../administration/calls.py`` it is, where signature and text are.
`rocketmq_py.aio.AdminClient` has the same calls. Must not know acts.
"""

from attrs import define, setters

from rocketmq_py.admin.blocking import BlockingAdmin, blocking
from rocketmq_py.administration.calls import AdminCalls
from rocketmq_py.config import explained


@explained
@define(kw_only=True, eq=False, repr=False, slots=False, on_setattr=setters.NO_OP)
class AdminClient(BlockingAdmin):
    """Asks and changes topics, groups, offsets, messages, brokers and users.

    Every call is safe from any thread, and asks servers: nothing is remembered. Settings are those
    of every client, of which ``namesrv_addr`` is needed, and:

    timeout_millis
        Budget of one request in milliseconds, from 1, or a timedelta. A call may need several.
    cluster
        Only brokers of this cluster are asked and changed; None: those of all clusters that the
        name server knows.

    ``at=`` is a broker's name, or the ``host:port`` of any broker, a slave too; without it all
    masters are meant, and what differs between them comes by broker name. What takes something
    away, or changes it, gives what has changed; with ``dry_run=True`` it gives the same and
    changes nothing.

    Calls raise `NoRouteError` (no such topic), `NameServerUnavailableError`, `RemotingException`
    (nobody answers in time), `MQBrokerException` (refused), of which `RequestNotSupportedError`
    says that a server is too old, `ConfigError` and TypeError for what no server would take. Where
    some of many brokers did what was asked, a note of the error names them.

    >>> from embedded_broker import EmbeddedBroker
    >>> with EmbeddedBroker() as broker:
    ...     with AdminClient(namesrv_addr=broker.namesrv_addr) as admin:
    ...         _ = admin.ensure_topic("Orders", queues=2)
    ...         {name: one.write_queues for name, one in admin.topic_settings("Orders").items()}
    {'broker-a': 2}
    """

    # --- clusters and topics ---------------------------------------------------------------

    brokers = blocking(AdminCalls.brokers)
    topic_names = blocking(AdminCalls.topic_names)
    route = blocking(AdminCalls.route)
    topic_settings = blocking(AdminCalls.topic_settings)
    bounds = blocking(AdminCalls.bounds)
    groups_of = blocking(AdminCalls.groups_of)
    create_topic = blocking(AdminCalls.create_topic)
    ensure_topic = blocking(AdminCalls.ensure_topic)
    alter_topic = blocking(AdminCalls.alter_topic)
    delete_topic = blocking(AdminCalls.delete_topic)

    # --- groups ----------------------------------------------------------------------------

    group_names = blocking(AdminCalls.group_names)
    group_settings = blocking(AdminCalls.group_settings)
    create_group = blocking(AdminCalls.create_group)
    alter_group = blocking(AdminCalls.alter_group)
    delete_group = blocking(AdminCalls.delete_group)
    members = blocking(AdminCalls.members)
    producers = blocking(AdminCalls.producers)
    member_state = blocking(AdminCalls.member_state)
    set_request_mode = blocking(AdminCalls.set_request_mode)

    # --- offsets ---------------------------------------------------------------------------

    group_progress = blocking(AdminCalls.group_progress)
    reset_offsets = blocking(AdminCalls.reset_offsets)
    skip_backlog = blocking(AdminCalls.skip_backlog)
    set_offsets = blocking(AdminCalls.set_offsets)
    clone_offsets = blocking(AdminCalls.clone_offsets)

    # --- messages --------------------------------------------------------------------------

    message = blocking(AdminCalls.message)
    messages_by_key = blocking(AdminCalls.messages_by_key)
    messages_by_time = blocking(AdminCalls.messages_by_time)
    message_at = blocking(AdminCalls.message_at)
    track = blocking(AdminCalls.track)
    trace = blocking(AdminCalls.trace)
    consume_now = blocking(AdminCalls.consume_now)
    ask_again = blocking(AdminCalls.ask_again)

    # --- brokers ---------------------------------------------------------------------------

    broker_runtime = blocking(AdminCalls.broker_runtime)
    broker_options = blocking(AdminCalls.broker_options)
    alter_broker = blocking(AdminCalls.alter_broker)
    set_broker_writable = blocking(AdminCalls.set_broker_writable)
    key_values = blocking(AdminCalls.key_values)
    put_key_value = blocking(AdminCalls.put_key_value)

    # --- timers ----------------------------------------------------------------------------

    pending_timers = blocking(AdminCalls.pending_timers)
    timer_check_point = blocking(AdminCalls.timer_check_point)
    delay_offsets = blocking(AdminCalls.delay_offsets)

    # --- users of ACL 2 (5.3) --------------------------------------------------------------

    users = blocking(AdminCalls.users)
    create_user = blocking(AdminCalls.create_user)
    alter_user = blocking(AdminCalls.alter_user)
    delete_user = blocking(AdminCalls.delete_user)
    policies = blocking(AdminCalls.policies)
    put_policies = blocking(AdminCalls.put_policies)
    delete_policies = blocking(AdminCalls.delete_policies)
