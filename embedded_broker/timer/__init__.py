"""Delayed messages inside the broker: the timer wheel for any time, and the eighteen levels.

The way of one message: `admission.py` (is it allowed, which slot) -> commit log ->
`timer/wheel/engine.py` (into `timer/wheel/slots.py` and
`timer/wheel/timer_log.py`, and out again) -> its own topic. `timer/levels/service.py` is the other,
older scheduler. Everything is found again from its files: `timer/wheel/recovery.py`.
"""
