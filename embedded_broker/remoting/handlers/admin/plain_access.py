"""Requests 50 to 53 of RocketMQ 4.9: the accounts of ACL 1.

Who may ask is decided by the guard: an admin. A change is in the file when it is answered, if the
accounts come from one. Secrets are in no answer. 4.9.8 has no 54. Read on:
`embedded_broker/tables/accounts/plain.py`.
"""

from typing import Any, Final

from attrs import define, evolve

from embedded_broker.remoting.endpoint import Endpoint
from embedded_broker.remoting.requests import Request, RequestError
from embedded_broker.tables.accounts.plain import PlainAccount, PlainAccounts, read_perms
from rocketmq_py.errors import ConfigError
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.headers.access import (
    CreateAccessConfigRequestHeader,
    DeleteAccessConfigRequestHeader,
    UpdateGlobalWhiteAddrsConfigRequestHeader,
)
from rocketmq_py.protocol.json_text import dumps

_OFF: Final = "access control is off: aclEnable=false"
_NO_FILE: Final = "memory"
"""What stands for the path of accounts that are in no file."""


@define(eq=False)
class PlainAccessProcessor:
    """Creates, changes, removes and describes accounts; ``accounts`` is None when ACL 1 is off."""

    _accounts: PlainAccounts | None
    _place: dict[str, str]
    """Name, address and cluster of the broker."""

    def register(self, endpoint: Endpoint) -> None:
        """Take over the requests of this module."""
        endpoint.register(RequestCode.UPDATE_AND_CREATE_ACL_CONFIG, self.put)
        endpoint.register(RequestCode.DELETE_ACL_CONFIG, self.delete)
        endpoint.register(RequestCode.GET_BROKER_CLUSTER_ACL_INFO, self.version)
        endpoint.register(RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG, self.set_white)

    def put(self, request: Request) -> RemotingCommand:
        """50: create an account, or change what the request names; whatever is wrong: 209."""
        failed = ResponseCode.UPDATE_AND_CREATE_ACL_CONFIG_FAILED
        accounts = self._on(failed)
        header = CreateAccessConfigRequestHeader.from_ext(request.command.ext_fields)
        given: dict[str, Any] = {
            "secret_key": header.secret_key,
            "white_remote_address": header.white_remote_address,
            "default_topic_perm": header.default_topic_perm or None,
            "default_group_perm": header.default_group_perm or None,
        }
        try:
            for kind, text in (("topic", header.topic_perms), ("group", header.group_perms)):
                given[f"{kind}_perms"] = None if text is None else read_perms(kind, text.split(","))
            changes = {name: value for name, value in given.items() if value is not None}
            known = accounts.find(header.access_key)
            if known is None:
                changes.setdefault("secret_key", "")
                account = PlainAccount(access_key=header.access_key, admin=header.admin, **changes)
            else:
                account = evolve(known.account, admin=header.admin, **changes)
            accounts.put(account)
        except (ConfigError, OSError) as error:
            raise RequestError(failed, str(error)) from error
        return request.command.answer(ResponseCode.SUCCESS)

    def delete(self, request: Request) -> RemotingCommand:
        """51: remove an account; unknown: 210."""
        failed = ResponseCode.DELETE_ACL_CONFIG_FAILED
        key = DeleteAccessConfigRequestHeader.from_ext(request.command.ext_fields).access_key
        try:
            removed = self._on(failed).remove(key)
        except (ConfigError, OSError) as error:
            raise RequestError(failed, str(error)) from error
        if not removed:
            raise RequestError(
                failed,
                f"The accesskey[{key}] corresponding to accessConfig has been deleted failed.",
            )
        return request.command.answer(ResponseCode.SUCCESS)

    def set_white(self, request: Request) -> RemotingCommand:
        """53: replace the addresses that need no account; a bad one or another file: 211."""
        failed = ResponseCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG_FAILED
        accounts = self._on(failed)
        header = UpdateGlobalWhiteAddrsConfigRequestHeader.from_ext(request.command.ext_fields)
        addresses, path = header.global_white_addrs, header.acl_file_full_path
        if path and path != str(accounts.path):
            raise RequestError(
                failed, f"The globalWhiteAddresses[{addresses}] has been updated failed."
            )
        try:
            accounts.set_white([one.strip() for one in addresses.split(",") if one.strip()])
        except (ConfigError, OSError) as error:
            raise RequestError(failed, str(error)) from error
        return request.command.answer(ResponseCode.SUCCESS)

    def version(self, request: Request) -> RemotingCommand:
        """52: how often the accounts were changed by request, and when last."""
        accounts = self._on(ResponseCode.SYSTEM_ERROR)
        version = {"counter": accounts.counter, "timestamp": accounts.changed_ms}
        files = {str(accounts.path or _NO_FILE): version}
        return request.command.answer(
            ResponseCode.SUCCESS,
            ext_fields={
                **self._place,
                "version": dumps(version).decode(),
                "allAclFileVersion": dumps(files).decode(),
            },
        )

    def _on(self, code: int) -> PlainAccounts:
        if self._accounts is None:
            raise RequestError(code, _OFF)
        return self._accounts
