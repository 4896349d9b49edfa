"""An order service on FastAPI, SQLite and RocketMQ, in one event loop.

* An order that nobody pays within 30 minutes is cancelled, by a message that arrives then.
* What happens to orders is booked: each event once, and those of a customer in order.
* Each morning at eight, by the clocks of Berlin, there is a report of the day before.

No message is lost and none counts twice, wherever the process is killed: what is to be sent is
written in the transaction that causes it, and what was handled in the transaction that handles it.

Copy the folder, and begin to read in ``service.py``. To run it, in the folder above:

    pip install fastapi uvicorn tzdata
    rocketmq-py serve --namesrv-port 9876
    uvicorn --factory order_service.app:create_app

Its tests move the clock:

    pip install fastapi httpx2 tzdata
    pytest order_service
"""
