"""The console where people sign in, by token or through a proxy, inside the test's process: who sees what."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from starlette.datastructures import Headers

from dashboard import identity, session
from ledger import audit, decisions
from ledger.database import Transaction
from ledger.errors import SignInEnded
from ledger.records import Act, Decision, Role, Seen, Settled
from ledger.views import review as views_review
from tests.browser.stage import CONFIGURATION
from tests.browser.test_sign_in import ADDRESSES
from tests.dashboard.conftest import App
from tests.dashboard.test_app import titles
from tests.fix_seed import RECEIPT, House, mail

ISSUER = "https://id.example.com"
OIDC = f"""
[console.sign_in]
issuer = "{ISSUER}"
client_id = "not-twice"
client_secret = "client"
cookie_secret = "cookies"
redirect_url = "https://desk.example.com/oauth2callback"
[console.roles]
groups = {{ desk = "support", watch = "viewer", build = "engineer", books = "auditor" }}
"""
PROXY = """
[console.proxy]
name = "gate"
secret = "shared"
url = "https://desk.example.com"
sign_out_url = "/oauth2/sign_out"
[console.roles]
groups = { desk = "support" }
"""
FORM = uuid4()
SECRET = "a secret of thirty-two characters"
Claims = dict[str, object]
SignedIn = Callable[..., None]


@pytest.fixture
def door(app: App, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Puts a way to come in into the console's configuration."""

    def configure(more: str) -> None:
        text = CONFIGURATION.format(refresh_s=2.0, decided_wait_s=15) + more
        Path(os.environ["NOTTWICE_CONFIG"]).write_text(text)
        monkeypatch.setenv("NOTTWICE_SECRET_SHARED", SECRET)
        session.house.clear()

    return configure


@pytest.fixture
def signed_in(door: Callable[[str], None], monkeypatch: pytest.MonkeyPatch) -> SignedIn:
    """What the provider's token says from now on; nothing: nobody signed in. Streamlit's own part is tried in a browser."""
    door(OIDC)

    def says(group: str = "", **differs: object) -> None:
        now = datetime.now(UTC)
        claims: Claims = {
            "iss": ISSUER,
            "aud": "not-twice",
            "sub": "u-1",
            "iat": now.timestamp(),
            "exp": (now + timedelta(hours=1)).timestamp(),
            "email": "ana@acme.example",
            "email_verified": True,
            "name": "Ana [Soto](https://evil.example)",
            "groups": [group],
        }
        monkeypatch.setattr(identity, "claims", lambda: claims | differs if group else {})

    return says


def test_whoever_is_not_signed_in_sees_nothing_but_the_way_in(app: App, signed_in: SignedIn) -> None:
    signed_in("books")
    known = {address.partition("?")[0] for address in ADDRESSES}
    assert set(app("me").session_state["pages"]) <= known, "the browser's test asks for each page there is"
    signed_in()
    at = app("audit")
    assert titles(at) == ["Sign in."]
    assert [button.label for button in at.button] == ["Sign in"]


@pytest.mark.parametrize(
    ("differs", "words"),
    [
        ({"groups": ["other"]}, "nobody has given you a role"),
        ({"email_verified": False}, "has not verified your e-mail address"),
        ({"aud": "other"}, "another application"),
        ({"iss": "https://evil.example"}, "Another provider"),
    ],
)
def test_whoever_may_not_come_in_is_told_why(
    app: App, signed_in: SignedIn, differs: Claims, words: str
) -> None:
    signed_in("desk", **differs)
    at = app("review")
    assert titles(at) == ["You may not come in."]
    assert any(words in block.value for block in at.markdown)
    assert [text.value for text in at.text] == ["ana@acme.example"], "so that they see as whom"
    assert [button.label for button in at.button] == ["Sign in as somebody else"]


def test_a_sign_in_that_ended_is_said_with_its_time(app: App, signed_in: SignedIn) -> None:
    ended = datetime.now(UTC) - timedelta(minutes=5)
    signed_in("desk", exp=ended.timestamp())
    assert titles(app("review")) == [f"Your sign-in ended at {ended:%H:%M} UTC."]


def test_a_role_counts_from_the_next_click_after_the_file_was_changed(app: App, signed_in: SignedIn) -> None:
    signed_in("books")
    file, roles = Path(os.environ["NOTTWICE_CONFIG"]), 'books = "auditor"'
    written, at = file.read_text(), app("audit")
    assert at.session_state["me"].role is Role.AUDITOR
    file.write_text(written.replace(roles, 'books = "support"'))
    assert not at.run().exception
    assert at.session_state["me"].role is Role.SUPPORT
    file.write_text(written.replace(roles, 'books = "a king"'))
    assert not at.run().exception
    assert at.session_state["me"].role is Role.SUPPORT, "a file with a mistake keeps the roles"
    file.write_text(written.replace(roles, 'others = "auditor"'))
    assert titles(at.run()) == ["You may not come in."]


def test_an_open_page_does_not_outlive_the_sign_in(app: App, signed_in: SignedIn) -> None:
    signed_in("desk")
    at = app("review")
    assert titles(at) == ["Nothing waits for a decision."]
    signed_in("desk", exp=datetime.now(UTC).timestamp() - 60)
    assert titles(at.run())[0].startswith("Your sign-in ended at ")


def test_the_persons_page_says_who_and_why(app: App, signed_in: SignedIn) -> None:
    signed_in("desk")
    at = app("me")
    assert titles(at) == ["You are Ana Soto https evil example, support."]
    said = [text.value for text in at.text]
    assert said == ["ana@acme.example", "You are support because of the group desk."]
    assert any("Your sign-in ends at" in block.value for block in at.markdown)
    assert [button.label for button in at.button] == ["Sign out"] and not at.radio


def test_people_are_rows_by_issuer_and_subject(
    signed_in: SignedIn, no_page: Callable[[], None], house: House
) -> None:
    """Not by a name or an address, which can change hands."""
    found = []
    for subject, email in (
        ("u-1", "ana@acme.example"),
        ("u-2", "ana@acme.example"),
        ("u-1", "ana.s@acme.example"),
    ):
        no_page()
        signed_in("desk", sub=subject, email=email, name="Ana")
        found.append(session.me())
    assert found[0].id == found[2].id != found[1].id
    rows = house.db.run(lambda tx: tx.all("SELECT issuer, subject, email FROM nottwice.people ORDER BY id"))
    assert [tuple(row) for row in rows] == [
        (ISSUER, "u-1", "ana.s@acme.example"),
        (ISSUER, "u-2", "ana@acme.example"),
    ]


def test_a_session_is_one_persons(app: App, signed_in: SignedIn) -> None:
    signed_in("desk")
    at = app("review")
    at.session_state["half a reason"] = "Ana's words"
    signed_in("watch", sub="u-2", name="Eve")
    at.run()
    assert "half a reason" not in at.session_state, "another identity gets a fresh session"


# ── What no button offers ─────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def no_page(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """The functions that pages call, called without a page: each call begins a session of its own."""

    def begin() -> None:
        monkeypatch.setattr(identity.st, "session_state", {})

    begin()
    return begin


def forged(
    house: House, do: Callable[[views_review.Send], Callable[[Transaction, Act], object]]
) -> session.Result:
    """An act about a new uncertain send, through the one door."""
    number = house.uncertain(RECEIPT, mail("ana.ruiz@example.com", "Your receipt"), ago_s=600)
    send = house.db.run(lambda tx: views_review.send(tx, Role.ADMIN, number))
    assert send is not None
    form = session.form_id(send.id, "forged")
    return session.act("forged", send.id, do(send), form=form, why="because", looked_at=("Only this page",))


def closing(send: views_review.Send) -> Callable[[Transaction, Act], Settled]:
    seen = Seen(send.version, send.content_digest)
    return lambda tx, act: decisions.settle(tx, send.id, seen, Decision.DO_NOT_SEND, act)


def rewriting(send: views_review.Send) -> Callable[[Transaction, Act], object]:
    """What the ledger would never do: the row itself, and an audit row to go with it."""

    def do(tx: Transaction, act: Act) -> None:
        audit.done(
            tx,
            act,
            "forged",
            "action",
            send.id,
            version=send.version + 1,
            before="needs_review",
            after="closed",
        )
        tx.execute(
            "UPDATE nottwice.actions SET state = 'closed', version = version + 1 WHERE id = :id", id=send.id
        )

    return do


@pytest.mark.usefixtures("no_page")
@pytest.mark.parametrize("group", ["watch", "build", "books"])
def test_a_forged_request_is_refused_by_the_ledger_and_by_the_database(
    signed_in: SignedIn, house: House, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    signed_in(group)
    assert forged(house, closing) == session.Refused("You can read this. Support or admin decides.")
    assert isinstance(forged(house, rewriting), session.TryAgain)
    assert "InsufficientPrivilege" in caplog.text
    states = house.db.run(lambda tx: tx.all("SELECT DISTINCT state FROM nottwice.actions"))
    assert [row.state for row in states] == ["needs_review"]
    noted = house.db.run(lambda tx: tx.all("SELECT outcome FROM nottwice.audit ORDER BY id"))
    assert [row.outcome for row in noted] == ["refused", "failed"]


@pytest.mark.usefixtures("no_page")
def test_after_the_end_of_a_sign_in_nothing_is_done_and_nothing_shown(
    signed_in: SignedIn, house: House
) -> None:
    signed_in("desk")
    assert isinstance(forged(house, closing), session.Done)
    signed_in("desk", exp=datetime.now(UTC).timestamp() - 60)
    refused = session.act("late", 1, lambda tx, act: None, form=FORM, why="because")
    assert isinstance(refused, session.Refused) and refused.message.endswith("Nothing was done.")
    assert isinstance(session.reveal(1, ""), session.Refused)
    with pytest.raises(SignInEnded):
        session.read(lambda tx: None)


# ── Behind a proxy ────────────────────────────────────────────────────────────────────────────────────


def through(monkeypatch: pytest.MonkeyPatch, **said: str) -> None:
    """The headers with which a session began."""
    headers = Headers(raw=[(name.replace("_", "-").encode(), value.encode()) for name, value in said.items()])
    monkeypatch.setattr(identity, "headers", lambda name: headers.getlist(name))


def test_a_proxys_headers_let_in_beside_its_secret_alone(
    app: App, door: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    door(PROXY)
    named = {"x_forwarded_user": "u-1", "x_forwarded_email": "ana@acme.example", "x_forwarded_groups": "desk"}
    through(monkeypatch, **named)
    assert titles(app("review")) == ["You may not come in."]
    through(monkeypatch, **named, x_not_twice_secret="guess")
    assert titles(app("review")) == ["You may not come in."]
    through(monkeypatch, **named, x_not_twice_secret=SECRET)
    assert titles(app("review")) == ["Nothing waits for a decision."]
    assert titles(app("me")) == ["You are ana acme example, support."]


def test_headers_change_nothing_where_no_proxy_is_configured(
    app: App, signed_in: SignedIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    signed_in()
    through(monkeypatch, x_forwarded_user="u-1", x_forwarded_groups="desk", x_not_twice_secret=SECRET)
    assert titles(app("review")) == ["Sign in."]
