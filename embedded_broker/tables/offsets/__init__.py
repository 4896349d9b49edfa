"""How far each group has consumed each queue."""
