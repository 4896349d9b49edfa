"""Version of the distribution, read by the build and by `rocketmq_py.__version__`."""

__version__ = "0.1.0.dev0"
