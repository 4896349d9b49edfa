"""Life cycle: who is started, stopped, reset and copied, in which order, and by what."""
