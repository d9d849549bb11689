"""Letters that only look Latin: a disguise inside a word is named, a name in another script is left alone."""

from __future__ import annotations

import pytest

from dashboard.letters import odd_letters, odd_places

CYRILLIC_A = "Cyrillic small letter a"


@pytest.mark.parametrize(
    ("address", "named"),
    [
        ("support@p\u0430ypal.example", [CYRILLIC_A]),
        ("Acme billing <billing@\u0430cme.example>", [CYRILLIC_A]),
        ("\u0391lice <alice@example.com>", ["Greek capital letter alpha"]),
        ("ann@ex\u200bample.com", ["Zero width space"]),
        ("\u202eann@example.com", ["Right-to-left override"]),
        ("ann@\uff45xample.com", ["Fullwidth latin small letter e"]),
        (
            "ann@\u0430\u0440\u0435.example",
            [CYRILLIC_A, "Cyrillic small letter er", "Cyrillic small letter ie"],
        ),
    ],
)
def test_a_disguise_is_named(address: str, named: list[str]) -> None:
    assert odd_letters(address) == named


@pytest.mark.parametrize(
    "address",
    [
        "李伟 <li.wei@example.net>",
        "סיון לוי <sivan@example.org>",
        "Иван Петров <ivan@example.com>",
        "Νίκος <nikos@example.com>",
        "Оса <osa@example.com>",
        "почта@пример.example",
        "Tシャツ屋 <shop@example.jp>",
        "zoë.größe@example.com",
        "Mª José <mj@example.es>",
        "Søren Holm <soren.holm@example.org>",
        "a\nb\tc",
    ],
)
def test_a_name_in_another_script_is_a_name(address: str) -> None:
    assert odd_letters(address) == []


def test_only_the_letter_itself_is_marked() -> None:
    text = "李伟 <li@p\u0430y.example>"
    assert odd_places(text) == {text.index("\u0430")}
