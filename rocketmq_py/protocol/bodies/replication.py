"""How far slaves are, and who belongs together: bodies of 901 and 907."""

from attrs import define, field

from rocketmq_py.protocol.bodies.document import Document


@define
class BrokerMemberGroup(Document):
    """The master and the slaves of one name, by broker id."""

    broker_addrs: dict[int, str] = field(factory=dict)
    broker_name: str = ""
    cluster: str = ""


@define
class GetBrokerMemberGroupResponseBody(Document):
    """Answer to 901."""

    broker_member_group: BrokerMemberGroup = field(factory=BrokerMemberGroup)


@define
class HAConnectionRuntimeInfo(Document):
    """One slave, as its master sees it; `diff` is by how many bytes it is behind."""

    addr: str = ""
    slave_ack_offset: int = -1
    diff: int = 0
    in_sync: bool = False
    transferred_byte_in_second: int = 0
    transfer_from_where: int = -1


@define
class HAClientRuntimeInfo(Document):
    """What a slave says of itself."""

    master_addr: str | None = None
    transferred_byte_in_second: int = 0
    max_offset: int = 0
    last_read_timestamp: int = 0
    last_write_timestamp: int = 0
    master_flush_offset: int = 0
    activated: bool = False


@define
class HARuntimeInfo(Document):
    """Answer to 907."""

    master: bool = True
    master_commit_log_max_offset: int = 0
    in_sync_slave_nums: int = 0
    ha_connection_info: list[HAConnectionRuntimeInfo] = field(factory=list)
    ha_client_runtime_info: HAClientRuntimeInfo = field(factory=HAClientRuntimeInfo)
