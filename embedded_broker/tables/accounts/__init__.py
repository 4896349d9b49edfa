"""Who may do what: plain accounts (ACL 1), users and policies (ACL 2)."""
