"""Overview: is work moving, does anything need me?"""

from __future__ import annotations

import streamlit as st

from dashboard import charts, endpoints, held, session, turned_away
from dashboard.charts import Bar
from dashboard.components import age_caption, database_gone, mode
from dashboard.house import CHARTS_EVERY, Glance
from dashboard.screens import stuck_fits
from dashboard.words import many, named, span
from ledger.views import LEASES_MAX, Hour, Snapshot
from ledger.views.kept import COUNTED_MAX


def page() -> None:
    every_s = session.refresh_s()
    glance = session.figures()
    if glance.figures is None and glance.gone_since is None:
        return
    if glance.figures is not None and not glance.figures.any_event:
        st.fragment(_empty, run_every=every_s)()
        return
    st.fragment(_figures, run_every=every_s)()
    st.fragment(_pictures, run_every=every_s * CHARTS_EVERY)()
    charts.soon()


# ── Every two seconds ─────────────────────────────────────────────────────────────────────────────────


def _figures() -> None:
    glance = session.figures()
    now = glance.figures
    if glance.gone_since is not None:
        database_gone(glance.gone_since, glance.age_s if now else None, session.refresh_s())
    if now is None:
        return
    if glance.gone_since is None and now.for_people != st.session_state.get("drawn_waiting"):
        st.rerun()  # the count in the navigation is drawn in full runs only
    gone = glance.gone_since is not None
    st.title(f"As last counted: {answer(now)}" if gone else answer(now), anchor=False)
    held.notices(now)
    endpoints.notices(now)
    _links(now, glance)
    _metrics(now)
    _states(now)


def answer(now: Snapshot) -> str:
    """The page's answer, as a sentence."""
    if not now.any_event:
        return "Nothing has arrived yet."
    if not now.workers:
        if now.last_sign_s is None:
            return "Work stands still: no worker has ever run."
        return f"Work stands still: no worker has given a sign for {span(now.last_sign_s)}."
    return f"{_pace_words(now)}. {', '.join(_needs(now)) or 'Nothing needs you'}."


def _pace_words(now: Snapshot) -> str:
    if now.moving:
        return "Work is moving"
    if now.pending > now.unhandled or now.approved:
        return "Work waits, and nothing was done in the last minute"
    return "No work waits for a worker"


def _needs(now: Snapshot) -> list[str]:
    needs = []
    if now.for_people:
        needs.append(many(now.for_people, "send waits for a person", "sends wait for a person"))
    if now.stuck:
        needs.append(many(now.stuck, "piece of work is stuck", "pieces of work are stuck"))
    needs += held.needs(now)
    if now.endpoints_off:
        needs.append(endpoints.off_words(now))
    if now.conflicts:
        needs.append(_counted(now.conflicts, "conflict is open", "conflicts are open"))
    if now.quarantined:
        needs.append(_counted(now.quarantined, "content is in quarantine", "contents are in quarantine"))
    return needs


def _counted(n: int, one: str, more: str) -> str:
    return many(n, one, more) if n <= COUNTED_MAX else f"more than {many(COUNTED_MAX, one, more)}"


def _links(now: Snapshot, glance: Glance[Snapshot]) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        if now.for_people and session.may_decide() and glance.gone_since is None:
            label = f"Decide {many(now.for_people, 'send')}"
            st.page_link(st.session_state["pages"]["review"], label=label, icon=":material/arrow_forward:")
        if glance.gone_since is None:
            _ways_onwards(now)
        st.space("stretch")
        age_caption(glance.age_s, "Counted" if glance.gone_since is not None else "Live, counted")


def _ways_onwards(now: Snapshot) -> None:
    if now.stuck:
        show = "past" if now.expired_leases else "aside" if now.failed else "unhandled"
        _to("stuck", stuck_fits.way_there(session.chosen().role), show=show)
    if now.conflicts:
        _to("events", f"See {_counted(now.conflicts, 'conflict', 'conflicts')}", show="conflicts")
    if now.quarantined:
        _to("events", "See quarantine", show="quarantine")


def _to(name: str, label: str, **only: str) -> None:
    page = st.session_state["pages"][name]
    st.page_link(page, label=label, icon=":material/arrow_forward:", query_params=only)


def _metrics(now: Snapshot) -> None:
    grid = st.grid(4, min_column_width=150, gap="small")

    def card(label: str, value: str, below: str, color: str) -> None:
        grid.metric(label, value, below, delta_color=color, delta_arrow="off", border=True, height="stretch")  # type: ignore[arg-type]

    oldest = f"oldest {span(now.oldest_review_s)}" if now.for_people else "nothing to decide"
    card("Waiting for a person", many(now.for_people, "send"), oldest, "orange" if now.for_people else "gray")
    waiting = many(now.pending - now.unhandled, "event") + " waiting"
    card("Longest wait for a worker", span(now.oldest_pending_s), waiting, "gray")
    lease_s = session.house().settings.worker.lease_s
    verb = "is past its" if now.expired_leases == 1 else "are past their"
    past = f"{now.expired_leases} of {now.processing} {verb} {lease_s:g} s"
    in_hand = f"{many(now.processing, 'event')} in hand"
    card(
        "Longest in hand",
        span(now.oldest_claim_s),
        *((past, "red") if now.expired_leases else (in_hand, "gray")),
    )
    card("Workers", *_workers(now))


def _workers(now: Snapshot) -> tuple[str, str, str]:
    """How many work, and who gives no sign any more; the silent come longest first, and are forgotten after a while."""
    if not now.silent:
        return (f"{now.workers}", "all give signs", "gray") if now.workers else ("0", "none runs", "red")
    (name, longest_s), *others = now.silent
    words = f"{named(name)} silent for {span(longest_s)}"
    if others:
        words = f"{len(now.silent)} silent for {span(now.silent[-1][1])} to {span(longest_s)}"
    return f"{now.workers} of {now.workers + len(now.silent)}", words, "red"


def _states(now: Snapshot) -> None:
    events: list[Bar] = [
        ("Waiting", now.pending - now.unhandled, "waiting"),
        ("In hand", now.processing, "working"),
        ("Set aside", now.failed, "broken"),
        ("Nobody handles", now.unhandled, "person"),
    ]
    sends: list[Bar] = [
        ("To approve", now.proposed, "person"),
        ("Ready to go", now.approved, "waiting"),
        ("On the way", now.sending, "working"),
        ("Needs a decision", now.needs_review, "person"),
    ]
    hour = session.charts().figures
    became: list[Bar] = [
        ("Delivered", hour.delivered_today if hour else 0, "done"),
        ("No word yet", hour.no_word_today if hour else 0, "waiting"),
        ("Bounced", hour.bounced_today if hour else 0, "broken"),
        ("Refused", hour.refused_today if hour else 0, "broken"),
    ]
    today = many(sum(n for _, n, _ in became), "send")
    cards = (
        ("Events now", events, "ev"),
        ("Sends now", sends, "ac"),
        (f"Today's {today}", became, "an"),
    )
    for column, (title, rows, key) in zip(st.columns(3), cards, strict=True):
        with column.container(border=True, height="stretch", gap="xxsmall"):
            st.markdown(f"**{title}**")
            alt = f"{title}: {', '.join(f'{n:,} {name.lower()}' for name, n, _ in rows)}"
            charts.draw(charts.bars(rows, mode()), key, alt)


# ── Every ten seconds ─────────────────────────────────────────────────────────────────────────────────


def _pictures() -> None:
    hour = session.charts().figures
    leases = session.leases().figures
    if hour is None or leases is None:
        return
    left, right = st.columns([3, 2])
    with left.container(border=True, height="stretch", gap="xxsmall"):
        st.markdown("**Deliveries per minute**")
        st.caption(_pace(hour))
        if hour.turned_away:
            st.caption(f":material/block: {turned_away.words(hour.turned_away)}")
        alt = "New and duplicate deliveries per minute over the last hour, and the share of duplicates"
        charts.draw(charts.deliveries(hour.minutes, mode()), "deliveries", alt)
    with right.container(border=True, height="stretch", gap="xxsmall"):
        lease_s = session.house().settings.worker.lease_s
        st.markdown("**Work in hand, by age**")
        n = _leases(len(leases))
        st.caption(f"{n} of {lease_s:g} s since the last sign. Past that, another worker takes over.")
        past = sum(lease.age_s > lease_s for lease in leases)
        alt = f"Age of each piece of work in hand, by worker; {past} past {lease_s:g} seconds"
        charts.draw(charts.lease_ages(leases, lease_s, mode()), "leases", alt)


def _leases(shown: int) -> str:
    """`The oldest 200 of 1,204 leases`, by the newest count."""
    figures = session.figures().figures
    in_all = max(shown, figures.processing) if figures and shown == LEASES_MAX else shown
    return many(shown, "lease") if in_all == shown else f"The oldest {shown:,} of {in_all:,} leases"


def _pace(hour: Hour) -> str:
    new, again = sum(m.new for m in hour.minutes), sum(m.duplicates for m in hour.minutes)
    done = hour.minutes[-2].done if len(hour.minutes) > 1 else 0
    if not new + again:
        return "Nothing arrived in the last hour."
    share = 100 * again / (new + again)
    words = f"{done:,} done in the last full minute"
    return f"{words} · {share:.1f} % of the last hour were duplicates: {again:,} of {new + again:,}"


# ── Before anything has arrived ───────────────────────────────────────────────────────────────────────


def _empty() -> None:
    glance = session.figures()
    if glance.figures is not None and glance.figures.any_event:
        st.rerun()
    st.title("Nothing has arrived yet.", anchor=False)
    endpoints.notices(glance.figures)
    settings = session.house().settings
    source = next(iter(settings.sources), "SOURCE")
    with st.container(border=True):
        st.markdown("**Providers post their webhooks here:**")
        st.code(f"http://127.0.0.1:{settings.receiver_port}/webhooks/{source}", language=None)
        st.caption("To see it work, post a few signed ones as the provider would:")
        st.code(f"nottwice simulate {source} --copies 5", language=None)
    age_caption(glance.age_s, "Live, counted")
