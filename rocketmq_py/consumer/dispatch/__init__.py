"""Ways of handing messages to the program: on a pool, in order, into an inbox, on a loop."""
