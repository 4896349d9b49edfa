"""What requests about accounts say in their headers: 50 to 53 of 4.9, 3001 to 3010 of 5.3."""

from __future__ import annotations

from rocketmq_py.protocol.headers import Flag, Header, Text, optional, required


class CreateAccessConfigRequestHeader(Header):
    """50: create an account or change it; permissions are joined by commas."""

    access_key: Text = required("accessKey")
    secret_key: Text | None = optional("secretKey")
    white_remote_address: Text | None = optional("whiteRemoteAddress")
    admin: Flag = optional("admin", default=False)
    default_topic_perm: Text | None = optional("defaultTopicPerm")
    default_group_perm: Text | None = optional("defaultGroupPerm")
    topic_perms: Text | None = optional("topicPerms")
    group_perms: Text | None = optional("groupPerms")


class DeleteAccessConfigRequestHeader(Header):
    """51: remove an account."""

    access_key: Text = required("accessKey")


class UpdateGlobalWhiteAddrsConfigRequestHeader(Header):
    """53: the addresses that need no account, joined by commas."""

    global_white_addrs: Text = required("globalWhiteAddrs")
    acl_file_full_path: Text | None = optional("aclFileFullPath")


class UserRequestHeader(Header):
    """3001 to 3004: a user by name."""

    username: Text = optional("username", default="")


class ListUsersRequestHeader(Header):
    """3005: users whose name contains a text."""

    filter: Text | None = optional("filter")


class AclRequestHeader(Header):
    """3006 to 3009: the policies of a subject, such as `User:alice`; 3008 may name a resource."""

    subject: Text = optional("subject", default="")
    policy_type: Text | None = optional("policyType")
    resource: Text | None = optional("resource")


class ListAclsRequestHeader(Header):
    """3010: policies of subjects and about resources whose names contain a text."""

    subject_filter: Text | None = optional("subjectFilter")
    resource_filter: Text | None = optional("resourceFilter")
