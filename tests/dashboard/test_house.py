"""What all sessions share: figures read once for everybody, kept while the database is gone; who has what open."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from dashboard.house import House, Shared
from ledger.settings import load


class Source:
    """Counts how often it is read, and fails when told to."""

    def __init__(self) -> None:
        self.reads, self.broken = 0, False

    def __call__(self) -> int:
        self.reads += 1
        if self.broken:
            raise OSError("gone")
        return self.reads


def test_many_viewers_are_one_reading() -> None:
    source = Source()
    shared = Shared(source, every_s=60)
    barrier, seen = threading.Barrier(8), list[int | None]()

    def look() -> None:
        barrier.wait(40)
        seen.append(shared.glance().figures)

    threads = [threading.Thread(target=look) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(40)
    assert seen == [1] * 8 and source.reads == 1


def test_the_last_figures_stay_and_say_since_when_they_are_old() -> None:
    source = Source()
    shared = Shared(source, every_s=0)
    assert shared.glance().gone_since is None
    source.broken = True
    first, second = shared.glance(), shared.glance()
    assert first.figures == second.figures == 1 and first.gone_since is not None
    assert second.gone_since == first.gone_since and second.age_s > 0
    source.broken = False
    assert shared.glance().gone_since is None and shared.glance().figures == source.reads


def test_after_an_act_everybody_counts_anew() -> None:
    source = Source()
    shared = Shared(source, every_s=60)
    shared.glance()
    shared.forget()
    assert shared.glance().figures == 2


def test_presence_names_others_and_not_oneself(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NOTTWICE_HOME", str(tmp_path))
    house = House(load())
    assert house.visit(7, "tab-1", "Ana", 1, choosing=False) == []
    assert house.visit(7, "tab-2", "Ana", 1, choosing=False) == []  # another tab of the same person
    others = house.visit(7, "tab-3", "Bo", 2, choosing=True)
    assert {visit.name for visit in others} == {"Ana"}
    assert house.visit(8, "tab-1", "Ana", 1, choosing=False) == []
    (bo,) = house.visit(7, "tab-1", "Ana", 1, choosing=False)
    since = bo.choosing_since
    assert since is not None and house.visit(7, "tab-3", "Bo", 2, choosing=True)
    assert house.visit(7, "tab-1", "Ana", 1, choosing=False)[0].choosing_since == since


def test_ui_09_a_choice_that_was_begun_and_not_pressed_is_told_to_its_person_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("NOTTWICE_HOME", str(tmp_path))
    house = House(load())
    house.visit(7, "tab-1", "Ana", 1, choosing=True, version=4)
    assert house.left_off(7, "tab-1", 1, 4) is None, "it is the same session"
    assert house.left_off(7, "tab-2", 1, 4) is not None
    assert house.left_off(7, "tab-2", 1, 5) is None, "it is another send by now"
    assert house.left_off(7, "tab-3", 2, 4) is None, "it is another person"
    house.visit(7, "tab-1", "Ana", 1, choosing=False, version=4)
    assert house.left_off(7, "tab-2", 1, 4) is None
