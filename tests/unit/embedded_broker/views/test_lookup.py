"""What a test names when it looks at a broker."""

import pytest

from embedded_broker import EmbeddedBroker
from embedded_broker.views.lookup import find_topic


def test_a_topic_is_found_by_its_exact_name(broker: EmbeddedBroker) -> None:
    core = broker._core()
    with core.door.quiet:
        assert find_topic(core, "T").topic_name == "T"


def test_the_error_for_an_unknown_topic_names_the_nearest(broker: EmbeddedBroker) -> None:
    broker.topics.create("Payments")
    core = broker._core()
    with core.door.quiet:
        with pytest.raises(KeyError, match="did you mean 'Payments'"):
            find_topic(core, "Payment")
        with pytest.raises(KeyError, match="no topic 'zzz'") as caught:
            find_topic(core, "zzz")
        assert "did you mean" not in str(caught.value)
