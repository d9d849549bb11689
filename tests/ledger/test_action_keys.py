"""Keys spelled by configuration: no two actions under one, once in a period of a zone's calendar, mistakes in words."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from uuid import UUID, uuid4
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger import actions
from ledger.action_keys import KeyTemplate, Period, period_of
from ledger.errors import Misconfigured, UnusableKey
from ledger.records import Email, KindRules, Proposal, Proposed
from ledger.settings import load
from tests.fix_sends import Sends

BERLIN, AUCKLAND = "Europe/Berlin", "Pacific/Auckland"
NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
TWO = KeyTemplate("invoice:{customer}:{number}")


# ── Spelling ──────────────────────────────────────────────────────────────────────────────────────────


def test_a_plain_key_is_spelled_as_by_hand() -> None:
    assert KeyTemplate("welcome:{user}").fill({"user": 7}, None) == "welcome:7"
    assert TWO.fill({"customer": "acme & søn", "number": "INV/1"}, None) == "invoice:acme & søn:INV/1"
    name = uuid4()
    assert KeyTemplate("welcome:{user}").fill({"user": name}, None) == f"welcome:{name}"


def test_key_parts_with_a_colon_stay_apart() -> None:
    one = TWO.fill({"customer": "a:b", "number": "c"}, None)
    other = TWO.fill({"customer": "a", "number": "b:c"}, None)
    assert (one, other) == ("invoice:a%3Ab:c", "invoice:a:b%3Ac")
    assert TWO.fill({"customer": "a%3Ab", "number": "c"}, None) not in (one, other)


PARTS = st.text(alphabet=":%3A{}ab \u00e9", min_size=1, max_size=6).filter(str.strip)


@given(PARTS, PARTS, PARTS, PARTS)
def test_other_parts_make_another_key(a: str, b: str, c: str, d: str) -> None:
    template = KeyTemplate("x:{one}-:{two}:end")
    first, second = template.fill({"one": a, "two": b}, None), template.fill({"one": c, "two": d}, None)
    assert (first == second) == ((a, b) == (c, d))


def test_values_that_the_key_does_not_use_are_no_mistake() -> None:
    given = {"user": "7", "plan": "pro"}
    assert KeyTemplate("welcome:{user}").fill(given, None) == "welcome:7"


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({}, "needs customer, and the values are nothing"),
        ({"customer": "a", "nummer": "b"}, "needs number, and the values are customer, nummer"),
        ({"customer": "", "number": "1"}, "customer is empty"),
        ({"customer": " \t", "number": "1"}, "customer is empty"),
        ({"customer": None, "number": "1"}, r"customer is nothing \(None\)"),
        ({"customer": True, "number": "1"}, "customer is of the type bool"),
        ({"customer": 1.0, "number": "1"}, "customer is of the type float"),
        ({"customer": ["a"], "number": "1"}, "customer is of the type list"),
        ({"customer": "a" * 501, "number": "1"}, "customer has 501 characters"),
    ],
)
def test_parts_that_make_no_key_are_refused_in_words(values: dict[str, object], words: str) -> None:
    with pytest.raises(UnusableKey, match=words):
        TWO.fill(values, None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("welcome", "names no part"),
        ("{user}:welcome", "must begin with a word of its own"),
        (":{user}", "must begin with a word of its own"),
        ("welcome{user}", "must begin with a word of its own"),
        ("welcome:{user}{plan}", "has no colon before {plan}"),
        ("welcome:{user}-{plan}", "has no colon before {plan}"),
        ("welcome:{user", "is no key"),
        ("welcome:}", "is no key"),
        ("welcome:{}", "called by small letters"),
        ("welcome:{User}", "called by small letters"),
        ("welcome:{user.id}", "called by small letters"),
        ("welcome:{user!r}", "without a format"),
        ("welcome:{user:>9}", "without a format"),
        ("welcome:{user}:{period}", "say which: period"),
    ],
)
def test_a_template_that_cannot_tell_two_apart_is_refused(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        KeyTemplate(text)


@pytest.mark.parametrize(
    ("one", "other", "meet"),
    [
        ("a:{x}", "a:{y}", True),
        ("a:{x}:b", "a:c:{y}", True),
        ("a:{x}", "b:{x}", False),
        ("a:{x}", "a:{x}:{y}", False),
        ("receipt:{x}", "receipt:refund:{x}", False),
        ("a:{x}:paid", "a:{x}:failed", False),
    ],
)
def test_whether_two_kinds_could_spell_one_key(one: str, other: str, meet: bool) -> None:
    assert KeyTemplate(one).may_meet(KeyTemplate(other)) is meet


# ── Periods ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("period", "at", "zone", "spelled"),
    [
        (Period.DAY, "2026-11-30T22:59:59+00:00", BERLIN, "2026-11-30"),
        (Period.DAY, "2026-11-30T23:00:00+00:00", BERLIN, "2026-12-01"),
        (Period.MONTH, "2026-11-30T22:59:59+00:00", BERLIN, "2026-11"),
        (Period.MONTH, "2026-11-30T23:00:00+00:00", BERLIN, "2026-12"),
        (Period.MONTH, "2026-11-30T23:00:00+00:00", "UTC", "2026-11"),
        (Period.QUARTER, "2026-12-31T11:00:00+00:00", AUCKLAND, "2027-Q1"),
        (Period.YEAR, "2026-12-31T10:59:59+00:00", AUCKLAND, "2026"),
        # ISO 8601: the week with the year's first Thursday is its first.
        (Period.WEEK, "2027-01-03T12:00:00+00:00", "UTC", "2026-W53"),
        (Period.WEEK, "2027-01-04T00:00:00+00:00", "UTC", "2027-W01"),
        (Period.WEEK, "2024-12-30T00:00:00+00:00", "UTC", "2025-W01"),
        # In Berlin clocks went forward on 29 March 2026 at 01:00 UTC and back on 25 October at 01:00 UTC.
        (Period.DAY, "2026-03-28T22:59:59+00:00", BERLIN, "2026-03-28"),
        (Period.DAY, "2026-03-28T23:00:00+00:00", BERLIN, "2026-03-29"),
        (Period.DAY, "2026-03-29T21:59:59+00:00", BERLIN, "2026-03-29"),
        (Period.DAY, "2026-03-29T22:00:00+00:00", BERLIN, "2026-03-30"),
        (Period.DAY, "2026-10-25T22:59:59+00:00", BERLIN, "2026-10-25"),
        (Period.DAY, "2026-10-25T23:00:00+00:00", BERLIN, "2026-10-26"),
        (Period.DAY, "2026-11-30T23:30:00+01:00", BERLIN, "2026-11-30"),  # however its source wrote it
    ],
)
def test_a_period_is_what_the_clocks_of_the_zone_show(
    period: Period, at: str, zone: str, spelled: str
) -> None:
    assert period_of(period, datetime.fromisoformat(at), zone) == spelled


def test_both_turns_of_an_hour_that_comes_twice_are_one_day() -> None:
    twice = datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo(BERLIN))
    assert twice.replace(fold=1).astimezone(UTC) - twice.astimezone(UTC) == timedelta(hours=1)
    days = {period_of(Period.DAY, t, BERLIN) for t in (twice, twice.replace(fold=1))}
    assert days == {"2026-10-25"}


FAILED = KeyTemplate("payment_failed:{subscription}:{period}", Period.MONTH, BERLIN)


@pytest.mark.parametrize("at", [None, NOON.replace(tzinfo=None)], ids=["none", "without a zone"])
def test_a_period_needs_a_time_and_now_is_none(at: datetime | None) -> None:
    with pytest.raises(UnusableKey, match="needs the time of what happened"):
        FAILED.fill({"subscription": "sub_1"}, at)


def test_a_time_at_the_end_of_the_calendar_is_said_so() -> None:
    first = datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14)))
    with pytest.raises(UnusableKey, match="end of the calendar"):
        FAILED.fill({"subscription": "sub_1"}, first)


def test_nobody_sets_the_period_by_hand() -> None:
    with pytest.raises(UnusableKey, match="leave it out of the values"):
        FAILED.fill({"subscription": "sub_1", "period": "2026-11"}, NOON)


# ── Proposing ─────────────────────────────────────────────────────────────────────────────────────────

MAIL = Email(("ann@example.com",), "Welcome", "Good to have you.")
WELCOME = KindRules("welcome", "inboxili", "inboxili", key=KeyTemplate("welcome:{user}"))


def proposed(sends: Sends, rules: KindRules, key: object, at: datetime | None = None) -> Proposed:
    proposal = Proposal("acme", key, rules, MAIL.content(), MAIL.to, at=at)  # type: ignore[arg-type]
    return sends.by_worker.run(lambda tx: actions.propose(tx, proposal))


def test_once_per_key_whoever_spells_it(sends: Sends) -> None:
    by_hand = KindRules("hello", "inboxili", "inboxili")
    first = proposed(sends, by_hand, "welcome:7")  # as an earlier release of the handler wrote it
    again = proposed(sends, WELCOME, {"user": 7})
    assert (first.created, again.created, again.action_id) == (True, False, first.action_id)
    assert sends.row(first.action_id).action_key == "welcome:7"


def test_a_kind_that_spells_its_keys_takes_no_other_and_the_other_way_round(sends: Sends) -> None:
    with pytest.raises(UnusableKey, match=r"\[actions.welcome\] spells its keys itself, welcome:\{user\}"):
        proposed(sends, WELCOME, "welcome:7")
    with pytest.raises(UnusableKey, match=r"\[actions.hello\] has no key to put values into"):
        proposed(sends, KindRules("hello", "inboxili", "inboxili"), {"user": 7})
    assert sends.rows("SELECT FROM nottwice.actions") == []


def test_once_in_a_period(sends: Sends) -> None:
    rules = KindRules("payment_failed", "inboxili", "inboxili", key=FAILED)
    times = [datetime(2026, 11, 2, tzinfo=UTC), NOON, datetime(2026, 11, 30, 23, tzinfo=UTC)]
    made = [proposed(sends, rules, {"subscription": "sub_1"}, at).created for at in times]
    assert made == [True, False, True]  # in Berlin the last one is in December


# ── The configuration ─────────────────────────────────────────────────────────────────────────────────

PROVIDER = '[providers.post]\nkind = "inboxili"\nkey = "k"\n'
KIND = '[actions.{kind}]\nprovider = "post"\n'


def refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> str:
    monkeypatch.setenv("NOTTWICE_HOME", str(tmp_path))
    (tmp_path / "nottwice.toml").write_text(PROVIDER + text)
    with pytest.raises(Misconfigured) as refusal:
        load()
    return str(refusal.value).partition("nottwice.toml, ")[2]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ('key = "welcome:{user"', "line 6: [actions.a] key is no key"),
        ('key = "a:{user}:{period}"', "line 6: [actions.a] key names {period}, so say which"),
        ('period = "month"', "line 6: [actions.a] period is set, and the key has no {period}"),
        (
            'period = "month"\nkey = "a:{user}:{priod}"',
            "line 6: [actions.a] period is set, and the key has no",
        ),
        (
            'period = "mnth"\nkey = "a:{x}:{period}"',
            "line 6: [actions.a] period must be one of day, week, month",
        ),
        ('key = "a:{user}"\nzone = "Europe/Berlin"', "line 7: [actions.a] zone is the zone of a period"),
        (
            'period = "day"\nkey = "a:{x}:{period}"\nzone = "Berlin"',
            "line 8: [actions.a] zone is no time zone",
        ),
        ('period = "day"\nkey = "a:{x}:{period}"\nzone = "../x"', "line 8: [actions.a] zone is no time zone"),
    ],
)
def test_a_wrong_key_stops_the_start_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: str, words: str
) -> None:
    assert refused(tmp_path, monkeypatch, KIND.format(kind="a") + more + "\n").startswith(words)


def test_two_kinds_of_one_key_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    both = "".join(KIND.format(kind=kind) + f'key = "hello:{{{kind}}}"\n' for kind in ("a", "b"))
    said = refused(tmp_path, monkeypatch, both)
    assert said.startswith("line 9: [actions.b] key can be the same as a key of [actions.a]")


def test_a_key_is_kept_as_long_as_its_period(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    yearly = KIND.format(kind="a") + 'key = "a:{x}:{period}"\nperiod = "year"\n'
    short = "[retention]\naction_keys_days = 100\nevent_keys_days = 30\n"
    said = refused(tmp_path, monkeypatch, yearly + short)
    assert said.startswith(
        "line 7: [actions.a] period is a year, and [retention] gives keys up after 100 days"
    )
    (tmp_path / "nottwice.toml").write_text(PROVIDER + yearly + "once_ever = true\n" + short)
    assert load().rules("a").key == KeyTemplate("a:{x}:{period}", Period.YEAR)


def test_uuid_is_a_part() -> None:
    assert (
        KeyTemplate("a:{x}").fill({"x": UUID(int=0)}, None).endswith(":00000000-0000-0000-0000-000000000000")
    )
