"""Who may ask."""

from __future__ import annotations

import pytest

from embedded_broker.control.gatekeeper import Gatekeeper

TOKEN = "a token that nobody guesses"
HERE = {"host": "127.0.0.1:9880"}


@pytest.mark.parametrize("peer", ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1", "localhost"])
def test_programs_of_this_host_are_let_in(peer: str) -> None:
    assert Gatekeeper(None).refuses(peer, HERE) is None


@pytest.mark.case("K26")
@pytest.mark.parametrize(
    "peer", ["10.0.0.9", "192.168.1.1", "::ffff:10.0.0.9", "fe80::1", None, ""]
)
def test_other_hosts_are_refused_without_a_token(peer: str | None) -> None:
    refusal = Gatekeeper(None).refuses(peer, HERE)
    assert refusal is not None
    assert (refusal.status, refusal.title) == (403, "OtherHost")


@pytest.mark.parametrize("host", ["localhost:9880", "127.0.0.1", "[::1]:9880"])
def test_names_of_this_host_are_known(host: str) -> None:
    assert Gatekeeper(None).refuses("127.0.0.1", {"host": host}) is None


@pytest.mark.parametrize("headers", [{"host": "evil.example:9880"}, {"host": ""}, {}])
def test_a_page_under_a_name_of_its_own_is_refused(headers: dict[str, str]) -> None:
    refusal = Gatekeeper(None).refuses("127.0.0.1", headers)
    assert refusal is not None
    assert (refusal.status, refusal.title) == (403, "OtherName")


def test_pages_of_other_sites_are_refused_and_its_own_page_is_not() -> None:
    gate = Gatekeeper(None)
    assert gate.refuses("127.0.0.1", {**HERE, "origin": "http://127.0.0.1:9880"}) is None
    for origin in ("https://evil.example", "null", "http://127.0.0.1:80"):
        refusal = gate.refuses("127.0.0.1", {**HERE, "origin": origin})
        assert refusal is not None
        assert (refusal.status, refusal.title) == (403, "OtherOrigin")


@pytest.mark.parametrize("peer", ["127.0.0.1", "10.0.0.9"])
def test_with_a_token_everybody_needs_it_and_nobody_else_is_asked_for_more(peer: str) -> None:
    gate = Gatekeeper(TOKEN)
    assert gate.refuses(peer, {"host": "name", "authorization": f"Bearer {TOKEN}"}) is None
    assert gate.refuses(peer, {"host": "name", "authorization": f"bearer {TOKEN}"}) is None
    for given in ("", TOKEN, f"Basic {TOKEN}", f"Bearer {TOKEN}x", "Bearer ", "Bearer ü"):
        refusal = gate.refuses(peer, {**HERE, "authorization": given})
        assert refusal is not None
        assert refusal.status == 401
        assert TOKEN not in refusal.detail
