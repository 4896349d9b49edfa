"""The room of the PySpark data source for RocketMQ topics; it holds no code yet (GAPS.md)."""
