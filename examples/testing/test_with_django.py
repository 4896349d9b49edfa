"""Tests of a Django view that sends a message when, and only when, its transaction commits.

Copy it to a folder of your own, since in here the settings of this clone's pytest count. There:

    pip install django
    pytest test_with_django.py
"""

from datetime import timedelta

import django
import pytest
from django.conf import settings
from django.core.management import call_command
from django.db import connection, transaction
from django.http import HttpRequest, HttpResponse
from django.test import Client, override_settings
from django.urls import path

from embedded_broker.pytest_plugin import Recorders
from rocketmq_py import DefaultMQProducer, Message

# -- the project: in yours these are settings.py, views.py and urls.py ----------------------------


def place_order(request: HttpRequest, number: str) -> HttpResponse:
    """Accept an order, and let it time out in half an hour."""
    message = Message(settings.ORDERS_TOPIC, number.encode(), delay=timedelta(minutes=30))
    with transaction.atomic():
        transaction.on_commit(lambda: settings.PRODUCER.send(message))
        if "broken" in request.GET:
            raise ValueError("the database is not pleased")
    return HttpResponse(status=201)


urlpatterns = [path("orders/<number>", place_order)]

if not settings.configured:
    settings.configure(
        ALLOWED_HOSTS=["testserver"],
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
        ORDERS_TOPIC="Orders",
        PRODUCER=None,
        ROOT_URLCONF=__name__,
        SECRET_KEY="only for tests",
    )
    django.setup()

# -- its tests ------------------------------------------------------------------------------------


@pytest.fixture
def client(rocketmq_producer: DefaultMQProducer, rocketmq_topic: str):
    """A client of the project, which sends to the broker of the test."""
    call_command("migrate", verbosity=0)
    with override_settings(PRODUCER=rocketmq_producer, ORDERS_TOPIC=rocketmq_topic):
        yield Client(raise_request_exception=False)
    connection.close()


def test_an_order_times_out_after_half_an_hour(
    client: Client, rocketmq_recorder: Recorders
) -> None:
    timeouts = rocketmq_recorder()
    assert client.post("/orders/42").status_code == 201
    timeouts.expect_nothing(within=timedelta(minutes=29))
    timeouts.expect("42", within=timedelta(minutes=1))


def test_what_is_rolled_back_sends_nothing(client: Client, rocketmq_recorder: Recorders) -> None:
    timeouts = rocketmq_recorder()
    assert client.post("/orders/42?broken").status_code == 500
    timeouts.expect_nothing(within=timedelta(days=1))
