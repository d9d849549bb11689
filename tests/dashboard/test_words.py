"""Words: spans, clocks and names say what they should, and names carry no markup."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from dashboard.components import said
from dashboard.screens import audit_entry
from dashboard.words import clock, harmless, key_words, many, named, span, what

NOW = datetime(2026, 11, 30, 9, 41, 20, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0.0 s"),
        (3.24, "3.2 s"),
        (74, "74 s"),
        (1860, "31 min"),
        (8040, "2 h 14 min"),
        (67_320, "18 h 42 min"),
        (273_600, "3 days 4 h"),
    ],
)
def test_a_span_has_as_many_digits_as_matter(seconds: float, words: str) -> None:
    assert span(seconds) == words


def test_a_clock_names_the_day_when_it_is_another() -> None:
    assert clock(NOW, NOW) == "09:41"
    assert clock(NOW - timedelta(days=1), NOW) == "29 Nov 09:41"


def test_a_key_is_worth_what_is_left_of_it() -> None:
    def words(left_s: float) -> str:
        return key_words("AgentMail", left_s, NOW + timedelta(seconds=left_s), NOW)

    assert words(18_120) == "until 14:43, 5 h left"
    assert words(1_800) == "until 10:11, 30 min left"
    assert words(83_000) == "until 08:44 tomorrow"
    assert words(-60) == "ran out at 09:40"
    assert key_words("Inboxili", None, None, NOW) == "Inboxili has none"


def test_counts_have_their_plural() -> None:
    assert many(1, "send waits", "sends wait") == "1 send waits"
    assert many(4081, "send") == "4,081 sends"


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("Ana Soto", "Ana Soto"),
        ("J. O'Neill-Ruiz", "J. O'Neill-Ruiz"),
        ("Zoë Łuczak", "Zoë Łuczak"),
        ("www.evil.example", "www evil example"),
        ("[x](http://y.example) **b**", "x http y example b"),
        ("a@b.example", "a b example"),
        (":red[x] `c` $y$ <b>", "red x c y b"),
        ("\u202e\n", "Somebody"),
    ],
)
def test_a_name_keeps_nothing_that_markdown_reads(given: str, shown: str) -> None:
    assert named(given) == shown


def test_a_kind_reads_as_words() -> None:
    assert what("refund_notice") == "Refund notice"


def test_text_from_outside_is_escaped_kept_in_one_direction_and_marked_where_it_deceives() -> None:
    html = said("<b>pаy\u202e</b>")
    assert html.startswith("<bdi>") and "<b>" not in html and "&lt;b&gt;" in html
    assert html.count("nt-odd") == 2 and "\u202e" not in html and "⟨U+202E⟩" in html
    assert "⟨U+0000⟩" in said("a\x00b")


def test_a_sentence_keeps_its_times_and_no_link_a_name_could_smuggle_in() -> None:
    assert (
        harmless("The key ran out at 09:41 UTC; nothing was done.")
        == "The key ran out at 09:41 UTC; nothing was done."
    )
    assert harmless("[x](http://y.example) :tada: was first.") == " x (http   y example)  tada: was first."


@pytest.mark.parametrize(
    ("known", "said"),
    [
        (
            "nobody_knows: A request went to inboxili at 09:12 UTC.",
            "Nobody knows whether it went out. A request went to inboxili at 09:12 UTC.",
        ),
        ("was_sent: ", "It went out."),
        ("The server is another one: 7 became 8.", "The server is another one: 7 became 8."),
        ("", ""),
    ],
)
def test_what_was_known_at_an_entry_is_the_verdict_with_its_reasons(known: str, said: str) -> None:
    assert audit_entry.known_words(known) == said
