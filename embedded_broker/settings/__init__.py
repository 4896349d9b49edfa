"""What a broker is told: its options and their limits, and the version that it behaves as."""
