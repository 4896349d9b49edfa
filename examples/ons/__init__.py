"""Two programs of Aliyun's ONS API that were ported from Java, line by line.

Start a broker (``rocketmq-py serve --namesrv-port 9876``), then each in a terminal of its own::

    python examples/ons/timer_consumer.py
    python examples/ons/timer_producer.py

``NAMESRV_ADDR`` in the environment names another name server. Ctrl-C ends the consumer.
"""
