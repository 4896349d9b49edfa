"""State of replication, for slaves and administrators: requests 906 and 907.

906 tells a slave where its master is followed, and a master that comes back what its slave has done
as acting master; 907 how far each slave is (`mqadmin haStatus`). Must
not know: how bytes travel. Read on: `embedded_broker/core/replication.py`.
"""

from embedded_broker.core.replication import Replication
from embedded_broker.remoting.endpoint import Endpoint
from embedded_broker.remoting.requests import Request
from embedded_broker.store.message_store import MessageStore
from rocketmq_py.protocol.bodies.replication import (
    HAClientRuntimeInfo,
    HAConnectionRuntimeInfo,
    HARuntimeInfo,
)
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.headers.admin import (
    ExchangeHAInfoRequestHeader,
    ExchangeHAInfoResponseHeader,
)


class ReplicationProcessor:
    """Tells of the master's slaves, or of a slave's master."""

    def __init__(self, replication: Replication, store: MessageStore, address: str) -> None:
        self._replication = replication
        self._store = store
        self._address = address
        self._begun_at = store.log.max_offset

    def register(self, endpoint: Endpoint) -> None:
        """Take over the requests of this module."""
        endpoint.register(RequestCode.EXCHANGE_BROKER_HA_INFO, self.places)
        endpoint.register(RequestCode.GET_BROKER_HA_STATUS, self.status)

    def places(self, request: Request) -> RemotingCommand:
        """906: where this master is followed; a slave, and one that nobody can follow, say less."""
        slaves, header = self._replication.slaves, ExchangeHAInfoResponseHeader()
        if self._replication.master_address is None:
            header = ExchangeHAInfoResponseHeader(
                master_ha_address=None if slaves is None else slaves.address,
                master_flush_offset=self._begun_at,
                master_address=self._address,
            )
        elif ExchangeHAInfoRequestHeader.from_ext(request.command.ext_fields).master_address:
            header = self._make_way()
        return request.command.answer(ResponseCode.SUCCESS, ext_fields=header.to_ext())

    def _make_way(self) -> ExchangeHAInfoResponseHeader:
        """Tell a master that comes back how far this slave has acted for it."""
        make_way = self._replication.make_way
        if make_way is None:
            return ExchangeHAInfoResponseHeader()
        progress = make_way()
        if progress is None:
            return ExchangeHAInfoResponseHeader(timers_are_leaving=True)
        return ExchangeHAInfoResponseHeader(
            timers_until_ms=progress.until_ms,
            timers_queue_offset=progress.queue_offset,
            timers_next_root=progress.next_root,
        )

    def status(self, request: Request) -> RemotingCommand:
        """907: how far every slave is; a slave tells of itself."""
        end, replication = self._store.log.max_offset, self._replication
        master = replication.master_address
        if master is not None:
            own = HAClientRuntimeInfo(master_addr=master() or None, max_offset=end)
            info = HARuntimeInfo(master=False, ha_client_runtime_info=own)
        else:
            states = [] if replication.slaves is None else replication.slaves.states(end)
            info = HARuntimeInfo(
                master_commit_log_max_offset=end,
                in_sync_slave_nums=sum(one.in_sync for one in states),
                ha_connection_info=[
                    HAConnectionRuntimeInfo(
                        addr=one.address,
                        slave_ack_offset=one.ack_offset,
                        diff=end - one.ack_offset,
                        in_sync=one.in_sync,
                        transferred_byte_in_second=one.bytes_per_second,
                        transfer_from_where=one.next_offset,
                    )
                    for one in states
                ],
            )
        return request.command.answer(ResponseCode.SUCCESS, body=info.encode())
