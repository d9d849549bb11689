"""What the payment webhook promises."""

from datetime import UTC, datetime

import pytest

from acme.billing import amount

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
INVOICE = {
    "id": "in_1",
    "number": "INV-7",
    "amount_paid": 4900,
    "currency": "eur",
    "customer_email": "bo@example.com",
}


@pytest.fixture
def paid(trial):
    """Delivers that an invoice was paid, and works it."""

    def delivered(key="evt_1", **changes):
        body = {"type": "invoice.paid", "data": {"object": INVOICE | changes}}
        trial.deliver("stripe", "invoice.paid", body, key=key)
        return trial.work()

    return delivered


def test_a_paid_invoice_is_booked_and_its_receipt_goes_out(trial, paid):
    (worked,) = paid()
    assert worked.ending == "completed"
    assert trial.rows("SELECT * FROM payments") == [("INV-7", "bo@example.com", 4900, "eur")]
    (mail,) = trial.send()
    assert (mail.recipients, mail.subject) == (["bo@example.com"], "Your receipt for INV-7")


def test_delivered_twice_or_told_by_two_events_there_is_one_receipt(trial, paid):
    paid()
    assert paid() == [], "the same event again is nothing new"
    (worked,) = paid(key="evt_2")
    assert worked.ending == "completed"
    assert [action.key for action in trial.actions()] == ["invoice:INV-7:paid"]
    assert len(trial.send()) == 1


def test_when_the_answer_to_a_send_is_lost_there_is_still_one_receipt(trial, paid):
    paid()
    trial.send({"status": 500, "accept": True})  # it has gone out, and we were told of an error
    assert trial.actions()[0].state == "approved", "it is tried again, with the same key"
    trial.wait_over()
    assert len(trial.send()) == 1
    assert trial.actions()[0].state == "sent"


def test_an_invoice_that_names_nobody_is_set_aside(trial, paid):
    (worked,) = paid(customer_email=None)
    assert worked.ending == "set_aside"
    assert trial.rows("SELECT count(*) FROM payments") == [(0,)]


def test_working_it_again_books_nothing_twice_and_sends_nothing_twice(trial, paid):
    (worked,) = paid()
    trial.send()
    trial.recompute(worked.event.id)
    assert len(trial.send()) == 1
    assert trial.rows("SELECT count(*) FROM payments") == [(1,)]


@pytest.mark.parametrize("order", [("active", "past_due"), ("past_due", "active")])
def test_a_subscription_keeps_the_latest_word_whatever_comes_first(trial, order):
    times = {"active": NOON, "past_due": NOON.replace(hour=13)}
    for status in order:
        body = {
            "type": "customer.subscription.updated",
            "data": {"object": {"id": "sub_1", "status": status}},
        }
        trial.deliver("stripe", "customer.subscription.updated", body, at=times[status])
        trial.work()
    assert trial.rows("SELECT status FROM subscriptions") == [("past_due",)]


def test_an_amount_is_written_in_its_currency():
    assert amount(INVOICE) == "EUR 49.00"
    assert amount(INVOICE | {"currency": "jpy"}) == "JPY 4900"
