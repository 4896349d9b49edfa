"""The hook by which Java clients sign their requests; here it stands for the credentials.

Must not know clients: ``construction.py`` gives them the credentials of the hook.
"""

from attrs import field, frozen

from rocketmq_py import Credentials


class SessionCredentials(Credentials):
    """The key pair that signs requests: (accessKey, secretKey) or with a securityToken."""


@frozen
class AclClientRPCHook:
    """Lets a client sign its requests; pass it where a constructor takes an ``rpcHook``."""

    credentials: Credentials = field()
