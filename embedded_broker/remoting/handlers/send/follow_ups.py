"""Send back, end of a transaction, recall: requests 36, 37, 323 and 370.

Read on: `embedded_broker/core/retries.py` (36: send it to the consumer again),
`embedded_broker/core/transactions/ending.py` (37: commit or roll back; 323: ask again) and
`embedded_broker/core/recalls.py` (370: take a timer back).
"""

from attrs import define

from embedded_broker.core.environment import Environment
from embedded_broker.core.produce import Produce
from embedded_broker.core.recalls import Recalls
from embedded_broker.core.refusals import Refused
from embedded_broker.core.retries import Retries, SentBack
from embedded_broker.core.transactions.ending import Ending, EndTransactions
from embedded_broker.remoting.code_meanings import code_for
from embedded_broker.remoting.endpoint import Endpoint
from embedded_broker.remoting.requests import Request, RequestError
from rocketmq_py.logs import get_logger
from rocketmq_py.protocol.codes import MQVersion, RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.headers.send import (
    ConsumerSendMsgBackRequestHeader,
    EndTransactionRequestHeader,
    RecallMessageRequestHeader,
    ResumeCheckHalfMessageRequestHeader,
)
from rocketmq_py.protocol.properties import Prop
from rocketmq_py.protocol.sysflag import TRANSACTION_COMMIT, TRANSACTION_ROLLBACK

logger = get_logger(__name__)


@define(eq=False, kw_only=True)
class FollowUpProcessor:
    """Sends back, ends transactions and recalls."""

    _env: Environment
    _endpoint: Endpoint
    _produce: Produce
    _retries: Retries
    _endings: EndTransactions
    _recalls: Recalls

    def register(self) -> None:
        """Take over the requests of this module."""
        register = self._endpoint.register
        register(RequestCode.CONSUMER_SEND_MSG_BACK, self.send_back)
        register(RequestCode.END_TRANSACTION, self.end_transaction)
        register(RequestCode.RESUME_CHECK_HALF_MESSAGE, self.resume_check)
        register(RequestCode.RECALL_MESSAGE, self.recall)

    def send_back(self, request: Request) -> RemotingCommand:
        """36: make a copy of a consumed message and send it on its way."""
        command = request.command
        header = ConsumerSendMsgBackRequestHeader.from_ext(command.ext_fields)
        # Clients before 3.4.9 do not mean what they write there.
        knows_most = command.version >= MQVersion.V3_4_9
        copy = self._retries.copy(
            SentBack(
                header.offset,
                header.group,
                header.delay_level,
                header.max_reconsume_times if knows_most else None,
                bool(header.unit_mode),
            ),
            self._endpoint.caller(request),
        )
        if copy is not None:
            outcome = self._produce.copy(copy)
            if outcome.reason is not None:
                remark = f"{outcome.status.name}: {outcome.remark or ''}"
                raise RequestError(ResponseCode.SYSTEM_ERROR, remark)
        return command.answer(ResponseCode.SUCCESS)

    def end_transaction(self, request: Request) -> RemotingCommand | None:
        """37: 8 commits, 12 rolls back; anything else says nothing and gets no answer.

        Clients send it one-way: what is refused is read in the journal.
        """
        header = EndTransactionRequestHeader.from_ext(request.command.ext_fields)
        self._endings.check_role()
        outcome = header.commit_or_rollback
        if outcome not in {TRANSACTION_COMMIT, TRANSACTION_ROLLBACK}:
            logger.info("transaction %s is not decided yet", header.msg_id)
            return None
        ending = Ending(
            header.producer_group,
            header.commit_log_offset,
            header.tran_state_table_offset,
            commits=outcome == TRANSACTION_COMMIT,
            was_asked=bool(header.from_transaction_check),
        )
        self._endings.end(ending, self._endpoint.caller(request))
        return request.command.answer(ResponseCode.SUCCESS)

    def resume_check(self, request: Request) -> RemotingCommand:
        """323: ask again about a half message that was given up, named by its offset id."""
        header = ResumeCheckHalfMessageRequestHeader.from_ext(request.command.ext_fields)
        self._endings.resume(header.msg_id or "", self._endpoint.caller(request))
        return request.command.answer(ResponseCode.SUCCESS)

    def recall(self, request: Request) -> RemotingCommand | None:
        """370: the answer's msgId is the UNIQ_KEY of the recalled message.

        Like every answer about messages it carries MSG_REGION.
        """
        header = RecallMessageRequestHeader.from_ext(request.command.ext_fields)
        region = {Prop.MSG_REGION: self._env.config.text("regionId")}
        try:
            recalled = self._recalls.recall(
                header.topic, header.recall_handle, header.producer_group, request.connection
            )
        except Refused as refused:
            code = code_for(refused.reason, self._env.profile)
            raise RequestError(code, refused.remark, region) from refused
        fields = region | {"msgId": recalled.unique_key}
        response = request.command.answer(ResponseCode.SUCCESS, ext_fields=fields)
        return self._endpoint.answer_when_durable(request, response, recalled.synced_at)
