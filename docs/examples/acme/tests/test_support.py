"""What the support inbox promises."""

from datetime import UTC, datetime

import pytest

from acme import model

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)


def letter(message="<m1@example.com>", subject="Where is my order?", **changes):
    given = {"inbox_id": "support@acme.example", "thread_id": "thd_1", "message_id": message}
    given |= {"from": "Ana Ruiz <ana@example.com>", "subject": subject, "text": "It is late."}
    return {"event_type": "message.received", "message": given | changes}


@pytest.fixture
def receive(trial):
    """Delivers a letter and works it; how its event ended."""

    def received(at=NOON, **parts):
        trial.deliver("support", "message.received", letter(**parts), at=at, ordering_key="thd_1")
        return trial.work()

    return received


def test_a_letter_opens_a_ticket_and_its_answer_waits_for_a_person(trial, receive):
    (worked,) = receive()
    assert worked.ending == "completed"
    assert trial.rows("SELECT thread, customer, letters FROM tickets") == [
        ("thd_1", "Ana Ruiz <ana@example.com>", 1)
    ]
    (answer,) = trial.actions()
    assert (answer.state, answer.content["in_reply_to"]) == ("proposed", "<m1@example.com>")
    assert trial.send() == [], "nobody has approved it"

    trial.approve(answer)
    (mail,) = trial.send()
    assert (mail.in_reply_to, mail.recipients) == ("<m1@example.com>", ["Ana Ruiz <ana@example.com>"])


def test_the_same_letter_told_by_two_events_is_answered_once(trial, receive):
    receive()
    receive()  # a catch-up found it again, without its event id
    assert len(trial.actions()) == 1
    assert trial.rows("SELECT letters FROM tickets") == [(1,)]


def test_while_the_model_is_busy_the_letter_waits_and_no_try_is_counted(trial, receive, monkeypatch):
    async def busy(*_, **__):
        raise model.Busy(again_in_s=90)

    with monkeypatch.context() as away:
        away.setattr(model, "draft", busy)
        (worked,) = receive()
    assert (worked.ending, trial.work()) == ("retry later", []), "it waits"

    trial.wait_over()
    (worked,) = trial.work()
    assert (worked.ending, worked.event.run.attempt) == ("completed", 1)


def test_the_model_is_told_how_long_it_may_take(receive, monkeypatch):
    told = []

    async def draft(*_, within_s):
        told.append(within_s)
        return "Hello."

    monkeypatch.setattr(model, "draft", draft)
    receive()
    assert 0 < told[0] < 120


def test_a_letter_that_nobody_can_answer_is_set_aside_for_a_person(trial, receive):
    (worked,) = receive(**{"from": ""})
    assert (worked.ending, str(worked.error)) == ("set_aside", "The letter has no from.")
    assert trial.actions() == []


def test_an_older_letter_counts_but_does_not_overwrite(trial, receive):
    receive(message="<m2@example.com>", subject="Found it")
    receive(message="<m1@example.com>", subject="Where is it?", at=NOON.replace(hour=11))
    assert trial.rows("SELECT subject, letters, as_of FROM tickets") == [("Found it", 2, NOON)]


def test_working_it_again_changes_nothing_and_answers_nobody_twice(trial, receive):
    (worked,) = receive()
    trial.run("UPDATE tickets SET subject = 'lost', letters = 7")
    (again,) = trial.recompute(worked.event.id)
    assert (again.ending, again.event.run.number) == ("completed", 2)
    assert trial.rows("SELECT subject, letters FROM tickets") == [("Where is my order?", 1)]
    assert len(trial.actions()) == 1
