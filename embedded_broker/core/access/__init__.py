"""The guards that know accounts: one for each of RocketMQ's two kinds of access control."""
