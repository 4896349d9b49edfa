"""Accounts: plain ones (ACL 1), users and policies (ACL 2)."""
