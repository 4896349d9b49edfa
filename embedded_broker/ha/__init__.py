"""How a slave follows a master: the commit log by HA transfer, the tables by requests."""
