"""What of the record is asked for. All of it stands in the address, so that a view can be handed on; a person by
their number there, and no words of anybody's.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from typing import Any, NamedTuple

import streamlit as st

from dashboard import paging, session
from dashboard.screens.audit_table import WORDS
from dashboard.words import harmless, named
from ledger.audit.choice import ENTITIES, OUTCOMES, POLICY, Chosen
from ledger.records import Role
from ledger.views import audit as views_audit

NAMES = ("who", "did", "about", "number", "when", "first", "last", "outcome")
SUBJECTS = {
    "action": "Sends",
    "event": "Events",
    "request": "Requests to agree",
    "conflict": "Conflicts",
    "quarantine": "Quarantine",
    "audit": "The record itself",
    "reprocess": "Runs of reprocessing",
    "finding": "Findings of runs",
    "together": "Lists decided together",
    "provider": "Providers",
    "installation": "This installation",
}
TIMES = {"today": "Today", "7d": "Last 7 days", "30d": "Last 30 days", "days": "Between two days"}
DAYS = {"today": 0, "7d": 7, "30d": 30}
ENDS = {"done": "Done", "refused": "Refused", "failed": "Failed"}
LABELS = dict(zip(NAMES, ("Who", "Did", "To what", "Number", "When", "From", "To", "Outcome"), strict=True))
DIGITS_MAX = 18  # of a bigint that is certainly one


def read() -> Chosen:
    """What the address asks for; what in it is unknown, malformed or there twice asks for nothing."""
    given = {name: st.query_params.get_all(name) for name in NAMES}
    asked = {name: values[0] for name, values in given.items() if len(values) == 1}
    entity, outcome = asked.get("about"), asked.get("outcome")
    since, until = _times(asked)
    return Chosen(
        person=number(asked.get("who", "")),
        act=asked.get("did") or None,
        entity=next((known for known in ENTITIES if known == entity), None),
        entity_id=number(asked.get("number", "")) if entity in ENTITIES else None,
        outcome=next((known for known in OUTCOMES if known == outcome), None),
        since=since,
        until=until,
    )


def not_understood(chosen: Chosen) -> list[str]:
    """The boxes for which the address has something that asks for nothing. Two days count only between two days."""
    understood = (
        chosen.person, chosen.act, chosen.entity, chosen.entity_id, _asked_time(), chosen.since, chosen.until, chosen.outcome
    )  # fmt: skip
    days = _asked_time() == "days"
    return [
        LABELS[name]
        for name, found in zip(NAMES, understood, strict=True)
        if found is None and st.query_params.get_all(name) and (days or name not in ("first", "last"))
    ]


def ask_about(entity: str, entity_id: int) -> None:
    """Ask for all entries about one thing, and for nothing else."""
    forget()
    st.query_params["about"], st.query_params["number"] = entity, str(entity_id)


def number(text: str) -> int | None:
    """A number from an address, or from somebody who typed one."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= DIGITS_MAX else None


class Option(NamedTuple):
    """One choice in a box; None asks for everything."""

    value: Any
    word: str


def draw(chosen: Chosen, role: Role) -> None:
    strange = not_understood(chosen)
    if strange:
        st.warning(
            f"**This address has something for {harmless(', '.join(strange))} that is not understood.** It asks for nothing; "
            "what is below is not narrowed by it.",
            icon=":material/link_off:",
        )
    with st.container(horizontal=True, vertical_alignment="bottom"):
        if role in views_audit.READ_ALL:
            _select("Who", "who", [Option(None, "Everybody"), *_people()], chosen.person)
        acts = [Option(act, WORDS.get(act, act)) for act in session.read(views_audit.acts)]
        _select("Did", "did", [Option(None, "Anything"), *acts], chosen.act)
        _select("To what", "about", _options("Anything", SUBJECTS), chosen.entity)
        if chosen.entity is not None:
            _number(chosen)
        _select("When", "when", _options("Any time", TIMES), _asked_time())
        if _asked_time() == "days":
            _day("From", "first", chosen.since and chosen.since.date())
            _day("To", "last", chosen.until and (chosen.until - timedelta(days=1)).date())
        _select("Outcome", "outcome", _options("Any", ENDS), chosen.outcome)
        if any(name in st.query_params for name in NAMES):
            st.button("Show all", type="tertiary", on_click=forget)


def _options(everything: str, known: dict[str, str]) -> list[Option]:
    return [Option(None, everything), *(Option(value, word) for value, word in known.items())]


def _people() -> list[Option]:
    """By name; of two with one name each has their number behind it."""
    found = {id_: named(name) for id_, name in session.read(views_audit.people).items()}
    names = list(found.values())
    words = {id_: f"{name} {id_}" if names.count(name) > 1 else name for id_, name in found.items()}
    return [Option(POLICY, "Policy"), *(Option(id_, word) for id_, word in words.items())]


def forget() -> None:
    """Ask for everything again."""
    for name in NAMES:
        st.query_params.pop(name, None)
        st.session_state.pop(f"audit_{name}", None)
    paging.start("audit")


# ── The boxes ─────────────────────────────────────────────────────────────────────────────────────────


def _select(label: str, name: str, options: list[Option], now: object) -> None:
    """A box that writes what was chosen into the address."""
    values = [option.value for option in options]
    st.selectbox(
        label,
        options=options,
        index=values.index(now) if now in values else 0,
        format_func=lambda option: harmless(option.word),
        key=f"audit_{name}",
        on_change=_chosen,
        args=(name,),
        width=138,  # five of them and their gaps fit 900 px
    )


def _number(chosen: Chosen) -> None:
    given = "" if chosen.entity_id is None else f"{chosen.entity_id}"
    st.text_input(
        "Number",
        given,
        max_chars=DIGITS_MAX,
        key="audit_number",
        on_change=_chosen,
        args=("number",),
        width=110,
    )


def _day(label: str, name: str, day: date | None) -> None:
    st.date_input(
        label,
        day,
        key=f"audit_{name}",
        on_change=_chosen,
        args=(name,),
        format="YYYY-MM-DD",
        width=130,
    )


def _chosen(name: str) -> None:
    value = st.session_state[f"audit_{name}"]
    value = value.value if isinstance(value, Option) else value
    paging.start("audit")
    if value is None or value == "":
        st.query_params.pop(name, None)
    else:
        st.query_params[name] = str(value).strip()


# ── Times ─────────────────────────────────────────────────────────────────────────────────────────────


def _asked_time() -> str | None:
    asked = st.query_params.get_all("when")
    return asked[0] if len(asked) == 1 and asked[0] in TIMES else None


def _times(asked: dict[str, str]) -> tuple[datetime | None, datetime | None]:
    when = asked.get("when", "")
    if when in DAYS:
        return _midnight(datetime.now(UTC).date() - timedelta(days=DAYS[when])), None
    if when != "days":
        return None, None
    first, last = _date(asked.get("first", "")), _date(asked.get("last", ""))
    return first and _midnight(first), last and _midnight(last + timedelta(days=1))


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)


def _date(text: str) -> date | None:
    try:
        day = date.fromisoformat(text)
    except ValueError:
        return None
    return day if 1970 <= day.year < 9000 else None
