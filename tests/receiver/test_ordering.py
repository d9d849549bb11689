"""`ordering_path`: which lane a delivery belongs to, as each kind of source finds it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ledger.records import digest_of
from tests import fix_receiver as fix
from tests.receiver.test_sources import agentmail, generic, one, read_mail, read_shop


def lane(key: str) -> bytes:
    return digest_of("ordering", key)


def shop(**members: Any) -> bytes:
    return json.dumps({"id": "evt_1", "type": "paid"} | members).encode()


def test_without_a_path_nothing_is_ordered() -> None:
    assert one(read_shop(generic(), shop(customer="c1"))).ordering_digest is None
    assert one(read_mail(agentmail(), fix.message("evt_1", thread_id="t1"))).ordering_digest is None


@pytest.mark.parametrize(
    ("found", "expected"),
    [("c1", "c1"), (42, "42"), (0, "0"), ("x" * 100_000, "x" * 100_000)],
)
def test_the_value_at_the_path_is_the_lane_however_long(found: Any, expected: str) -> None:
    item = one(read_shop(generic(ordering_path="customer.id"), shop(customer={"id": found})))
    assert item.ordering_digest == lane(expected)


@pytest.mark.parametrize("found", [None, "", " ", True, 1.5, [], {}])
def test_what_is_no_id_orders_nothing(found: Any) -> None:
    """A missing key must not put all events that lack it into one lane."""
    assert one(read_shop(generic(ordering_path="customer"), shop(customer=found))).ordering_digest is None
    assert one(read_shop(generic(ordering_path="customer.id"), shop())).ordering_digest is None


def test_each_element_of_a_list_has_its_own_lane() -> None:
    body = json.dumps([{"id": str(n), "type": "paid", "customer": n % 2} for n in range(4)]).encode()
    items = read_shop(generic(ordering_path="customer"), body)
    assert [item.ordering_digest for item in items] == [lane("0"), lane("1")] * 2  # type: ignore[union-attr]


def test_two_sources_that_name_one_customer_share_the_lane() -> None:
    shop_, till = generic("shop", ordering_path="customer"), generic("till", ordering_path="customer")
    body = shop(customer="c1")
    assert one(read_shop(shop_, body)).ordering_digest == one(read_shop(till, body)).ordering_digest


@pytest.mark.parametrize(
    ("member", "type_"), [("message", "message.received"), ("bounce", "message.bounced")]
)
def test_agentmail_looks_inside_the_events_own_object(member: str, type_: str) -> None:
    inner = {"inbox_id": "in@x", "thread_id": "t1", "message_id": "<m1>"}
    body = json.dumps({"event_type": type_, "event_id": "evt_1", member: inner}).encode()
    by = {path: one(read_mail(agentmail(ordering_path=path), body)) for path in ("thread_id", "inbox_id")}
    assert [by[path].ordering_digest for path in by] == [lane("t1"), lane("in@x")]


@pytest.mark.parametrize("path", ["a..b", ".a", "a."])
def test_a_path_with_an_empty_part_stops_the_start(path: str) -> None:
    with pytest.raises(ValueError, match="ordering_path|empty part"):
        generic(ordering_path=path)
