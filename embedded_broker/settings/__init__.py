"""Settings of a broker: its options and their limits, and the version that it behaves as."""
