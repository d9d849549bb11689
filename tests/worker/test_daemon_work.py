"""Worker processes at work: real processes, killed, stopped and cut off; a real server between them."""

from __future__ import annotations

from tests.fix_worker import Workshop

SALE = """
@handlers.apply("shop", "sale")
def sale(tx, event, propose):
    effect(tx, event)
"""


def test_a_worker_does_what_is_due_and_what_comes(workshop: Workshop) -> None:
    first = workshop.accept(*["sale"] * 60)
    worker = workshop.start(SALE)
    workshop.until("SELECT count(*) = 60 FROM public.effects")
    worker.notes.wait_for("started")
    second = workshop.accept("sale")
    workshop.until("SELECT count(*) = 61 FROM public.effects")
    assert sorted(workshop.effects()) == sorted(f"sale {n}" for n in first + second)
    assert set(workshop.states()) == {"completed"}
