"""The sliced timer engine: a log for each slice of time, and the seconds of two slices in memory.

The second way to keep timers beside the wheel (`embedded_broker/timer/wheel/engine.py`). Whole
messages wait in a log of the slice of their time, outside the commit log; the present slice, and
the next one when it is near, are in memory as lists of places, one for each second. Read on:
`engine.py`.
"""
