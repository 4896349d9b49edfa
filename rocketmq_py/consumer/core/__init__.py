"""What every kind of consumer stands on, each part alone: locks, offsets, receipts and requests."""
