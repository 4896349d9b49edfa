"""Offsets: how far each group has consumed each queue."""
