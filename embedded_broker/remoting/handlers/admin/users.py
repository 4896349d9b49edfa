"""Requests 3001 to 3010 of RocketMQ 5.3: users and policies of ACL 2.

Who may ask is decided by the guard: a right to change or to read the cluster. A change is in the
file when it is answered. As from the original, the answers of 3004 and 3005 hold passwords. Read
on: `embedded_broker/core/access/user_administration.py`.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from attrs import define

from embedded_broker.core.access.user_administration import UserAdministration
from embedded_broker.core.refusals import Reason, Refused
from embedded_broker.errors import StoreError
from embedded_broker.remoting.endpoint import Endpoint
from embedded_broker.remoting.long_requests import Work, elsewhere
from embedded_broker.remoting.requests import Request
from rocketmq_py.errors import BodyError
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.headers.access import (
    AclRequestHeader,
    ListAclsRequestHeader,
    ListUsersRequestHeader,
    UserRequestHeader,
)
from rocketmq_py.protocol.json_text import dumps
from rocketmq_py.protocol.lenient_json import loads_lenient
from rocketmq_py.protocol.signing import ACCESS_KEY

Save = Callable[[], Callable[[], None]]
"""Called under the door: takes what is to be saved, and gives what saves it outside."""


@define(eq=False)
class UserProcessor:
    """Creates, changes, removes and shows users and policies."""

    _administration: UserAdministration
    _save: Save

    def register(self, endpoint: Endpoint) -> None:
        """Take over the requests of this module."""
        register, change = endpoint.register, endpoint.register_long
        change(RequestCode.AUTH_CREATE_USER, self.create_user)
        change(RequestCode.AUTH_UPDATE_USER, self.update_user)
        change(RequestCode.AUTH_DELETE_USER, self.delete_user)
        register(RequestCode.AUTH_GET_USER, self.get_user)
        register(RequestCode.AUTH_LIST_USER, self.list_users)
        change(RequestCode.AUTH_CREATE_ACL, self.put_acl)
        change(RequestCode.AUTH_UPDATE_ACL, self.put_acl)
        change(RequestCode.AUTH_DELETE_ACL, self.delete_acl)
        register(RequestCode.AUTH_GET_ACL, self.get_acl)
        register(RequestCode.AUTH_LIST_ACL, self.list_acls)

    def create_user(self, request: Request) -> Work:
        """3001: add a user; a name that is taken is 16, none at all 29."""
        name = UserRequestHeader.from_ext(request.command.ext_fields).username
        self._administration.create_user(name, _body(request), _signer(request))
        return (yield from self._saved(request))

    def update_user(self, request: Request) -> Work:
        """3002: change password, type or state of a user; unknown: 16."""
        name = UserRequestHeader.from_ext(request.command.ext_fields).username
        self._administration.update_user(name, _body(request), _signer(request))
        return (yield from self._saved(request))

    def delete_user(self, request: Request) -> Work:
        """3003: remove a user with all policies."""
        name = UserRequestHeader.from_ext(request.command.ext_fields).username
        self._administration.delete_user(name, _signer(request))
        return (yield from self._saved(request))

    def get_user(self, request: Request) -> RemotingCommand:
        """3004: a user; unknown: no body."""
        name = UserRequestHeader.from_ext(request.command.ext_fields).username
        return _found(request, self._administration.get_user(name))

    def list_users(self, request: Request) -> RemotingCommand:
        """3005: all users, or those whose name contains a text; none: no body."""
        header = ListUsersRequestHeader.from_ext(request.command.ext_fields)
        return _found(request, self._administration.list_users(header.filter))

    def put_acl(self, request: Request) -> Work:
        """3006 and 3007, which are the same: add policy entries to a user, or replace them."""
        header = AclRequestHeader.from_ext(request.command.ext_fields)
        self._administration.put_acl(header.subject, _body(request))
        return (yield from self._saved(request))

    def delete_acl(self, request: Request) -> Work:
        """3008: remove the entry about a resource, or all policies of a user."""
        header = AclRequestHeader.from_ext(request.command.ext_fields)
        self._administration.delete_acl(header.subject, header.policy_type, header.resource)
        return (yield from self._saved(request))

    def get_acl(self, request: Request) -> RemotingCommand:
        """3009: the policies of a user; none: no body."""
        header = AclRequestHeader.from_ext(request.command.ext_fields)
        return _found(request, self._administration.get_acl(header.subject))

    def list_acls(self, request: Request) -> RemotingCommand:
        """3010: policies of users and about resources that contain a text; none: no body."""
        header = ListAclsRequestHeader.from_ext(request.command.ext_fields)
        return _found(
            request, self._administration.list_acls(header.subject_filter, header.resource_filter)
        )

    def _saved(self, request: Request) -> Work:
        """Answer when the change would outlive the broker."""
        save = self._save()
        yield elsewhere
        problem = yield partial(_problem_of, save)
        if problem is not None:
            raise Refused(Reason.FAILED, f"changed, but not saved: {problem}")
        return request.command.answer(ResponseCode.SUCCESS)


def _signer(request: Request) -> str | None:
    return request.command.ext_fields.get(ACCESS_KEY)


def _body(request: Request) -> dict[str, Any]:
    document = loads_lenient(request.command.body) if request.command.body else {}
    if not isinstance(document, dict):
        raise BodyError("UserInfo or AclInfo", "is no JSON object")
    return document


def _found(request: Request, document: object) -> RemotingCommand:
    body = dumps(document) if document else b""
    return request.command.answer(ResponseCode.SUCCESS, body=body)


def _problem_of(save: Callable[[], None]) -> str | None:
    try:
        save()
    except StoreError as error:
        return str(error)
    return None


def saving(take: Callable[[], Any], save: Callable[[Any], None]) -> Save:
    """Take a document under the door, and save it outside."""
    return lambda: partial(save, take())
