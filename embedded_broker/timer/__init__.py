"""Delayed messages inside the broker: the timer wheel for any time, and the eighteen levels.

The way of one message: `admission.py` (is it allowed, which slot) -> commit log -> `engine.py` and
`services.py` (into `wheel.py` and `timer_log.py`, and out again) -> its own topic. `levels.py` is
the other, older scheduler. Everything is found again from its files: `recovery.py`.
"""
