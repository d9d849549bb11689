"""Whether our webhook endpoints are on: asked through the published package, kept, alarmed, and ended again."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ledger import check, views
from ledger.accounts import endpoints
from ledger.accounts.endpoints import Endpoint
from ledger.check import Level
from ledger.database import Database
from ledger.records import Unanswered
from ledger.settings import AlertSettings, Settings
from ledger.views.status import status
from tests.fix_sandbox import RawServer, Sandbox, Script
from tests.fix_worker import Notes, Workshop
from tests.worker.test_agentmail_search import answering
from worker import providers
from worker.endpoints import EndpointWatch, ours
from worker.providers.agentmail import AgentMail
from worker.sandbox.courier import Courier
from worker.sandbox.store import Store

CONFIG = """
[sources.mail]
kind = "agentmail"
secrets = ["hook"]

[providers.post]
kind = "agentmail"
base_url = "{url}"
key = "post-key"
account = "acme"
timeout_s = 5
{more}

[providers.pigeon]
kind = "inboxili"
base_url = "{url}/api/v1"
key = "post-key"
"""
RawServers = Callable[[Script], RawServer]
Watches = Callable[..., EndpointWatch]


@pytest.fixture
def settings(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Settings]:
    monkeypatch.setenv("hook", "whsec_bm90IHR3aWNlLCBhIHRlc3QncyBrZXk=")
    monkeypatch.setenv("post-key", "am-key")
    every = "endpoints_every_s = 0.000001"

    def make(url: str, more: str = "", worker: str = every) -> Settings:
        return workshop.settings(more=CONFIG.format(url=url, more=more), worker=worker)

    return make


@pytest.fixture
def provider(settings: Callable[..., Settings]) -> Iterator[Sandbox]:
    """A sandbox that posts webhooks, so that it has endpoints."""
    with Sandbox(Store(), {"agentmail": "am-key"}, Courier(settings("http://127.0.0.1:1"))) as running:
        yield running


@pytest.fixture
def watches(workshop: Workshop, settings: Callable[..., Settings]) -> Iterator[Watches]:
    opened = []

    def build(url: str, **given: Any) -> EndpointWatch:
        opened.append(Database(workshop.url, pool_size=2))
        found = settings(url, **given)
        return EndpointWatch(opened[-1], found, providers.build_all(found))

    yield build
    for database in opened:
        database.close()


def found(workshop: Workshop, **limits: Any) -> list[tuple[Level, str]]:
    """What `nottwice check` says of endpoints."""
    seen = workshop.database.run(lambda tx: check.findings(tx, AlertSettings(**limits)))
    return [(one.level, one.what) for one in seen if "endpoint" in one.what]


def counted(workshop: Workshop) -> dict[str, int]:
    return dict(workshop.database.run(lambda tx: status(tx))["endpoints"])


def switch(provider: Sandbox, *, enabled: bool) -> None:
    assert provider.http.put("/sandbox/webhooks", json={"enabled": enabled}).status_code == 200


def test_an_endpoint_that_is_switched_off_is_an_alert_until_it_is_on_again(
    workshop: Workshop, provider: Sandbox, watches: Watches, notes: Notes
) -> None:
    watch = watches(provider.url)
    watch.turn()
    assert (counted(workshop), found(workshop)) == ({"on": 1, "off": 0, "unanswered": 0}, [])

    switch(provider, enabled=False)
    watch.turn()
    ((level, what),) = found(workshop)
    assert level is Level.CRITICAL and what.startswith(
        "AgentMail has switched off our webhook endpoint ep_mail (http"
    )
    assert counted(workshop) == {"on": 0, "off": 1, "unanswered": 0}
    since = workshop.value("SELECT since FROM nottwice.endpoints")
    watch.turn()
    assert workshop.value("SELECT since FROM nottwice.endpoints") == since, "when we first saw it"
    now = workshop.database.run(lambda tx: views.snapshot(tx, silent_s=60))
    assert [one.label for one in now.endpoints_off] == ["AgentMail"] and now.endpoints_unknown == ()

    switch(provider, enabled=True)
    watch.turn()
    assert (counted(workshop), found(workshop)) == ({"on": 1, "off": 0, "unanswered": 0}, [])
    assert notes.of("endpoints", account="acme", on=0, off=1) and notes.of(
        "endpoints", account="acme", on=1, off=0
    )
    assert (
        workshop.value(
            "SELECT bool_or(p::text ~ 'whsec' OR e::text ~ 'whsec') FROM nottwice.endpoint_polls p "
            "JOIN nottwice.endpoints e USING (account)"
        )
        is False
    ), "their secrets stay there"


@pytest.mark.parametrize(
    "fault",
    [
        {"status": 503},
        {"status": 401, "code": "unauthorized"},
        {"cut": True},
        {"status": 429},
        {"status": 200, "body": "<p>"},
    ],
    ids=lambda fault: str(fault),
)
def test_a_provider_that_cannot_be_asked_is_not_known_and_not_off(
    workshop: Workshop, provider: Sandbox, watches: Watches, fault: dict[str, Any]
) -> None:
    watch = watches(provider.url)
    watch.turn()
    provider.faults({"reads": True, "count": None} | fault)
    watch.turn()
    assert counted(workshop) == {"on": 1, "off": 0, "unanswered": 1}
    assert found(workshop) == [], "for a while that is nothing"
    workshop.run("UPDATE nottwice.endpoint_polls SET answered_at = now() - interval '2 h'")
    ((level, what),) = found(workshop)
    assert level is Level.WARNING and "(acme) is not known since 2 h. AgentMail" in what
    assert found(workshop, endpoints_unknown_s=9000) == []
    provider.faults()
    watch.turn()
    assert (counted(workshop), found(workshop)) == ({"on": 1, "off": 0, "unanswered": 0}, [])


def test_what_was_off_stays_off_while_nobody_answers(
    workshop: Workshop, provider: Sandbox, watches: Watches
) -> None:
    watch = watches(provider.url)
    switch(provider, enabled=False)
    watch.turn()
    provider.faults({"reads": True, "count": None, "status": 503})
    watch.turn()
    assert [level for level, _ in found(workshop)] == [Level.CRITICAL]


def test_a_provider_that_never_answered_is_said_too(workshop: Workshop, watches: Watches) -> None:
    watches("http://127.0.0.1:1").turn()
    assert counted(workshop) == {"on": 0, "off": 0, "unanswered": 1}
    workshop.run("UPDATE nottwice.endpoint_polls SET unanswered_since = now() - interval '2 h'")
    ((_, what),) = found(workshop)
    assert "could not be reached" in what
    now = workshop.database.run(lambda tx: views.snapshot(tx, silent_s=60))
    assert [one.account for one in now.endpoints_unknown] == ["acme"]


def test_of_several_workers_one_asks_and_a_late_answer_does_not_count(
    workshop: Workshop, provider: Sandbox, watches: Watches
) -> None:
    calm = watches(provider.url, worker="endpoints_every_s = 300")
    calm.turn()
    switch(provider, enabled=False)
    watches(provider.url, worker="endpoints_every_s = 300").turn()
    assert counted(workshop)["off"] == 0, "the other has asked a moment ago"

    def ask() -> Any:
        return workshop.database.run(lambda tx: endpoints.ask(tx, "acme", "AgentMail", every_s=0))

    first, second = ask(), ask()
    off, on = Endpoint("ep", "", "disabled"), Endpoint("ep", "", "enabled")
    assert workshop.database.run(lambda tx: endpoints.answered(tx, "acme", second, [on]))
    assert not workshop.database.run(lambda tx: endpoints.answered(tx, "acme", first, [off]))
    workshop.database.run(lambda tx: endpoints.unanswered(tx, "acme", first, "late"))
    assert counted(workshop) == {"on": 1, "off": 0, "unanswered": 0}


def test_one_of_two_is_a_warning_and_one_that_is_gone_is_as_bad_as_off(
    workshop: Workshop, watches: Watches, raw_server: RawServers
) -> None:
    answer: list[dict[str, Any]] = []
    server = raw_server(lambda connection: answering({"count": 1, "webhooks": answer})(connection))
    watch = watches(server.url)
    one = {"webhook_id": "ep_1", "url": "https://a.example/webhooks/mail", "enabled": True}
    two = one | {"webhook_id": "ep_2", "enabled": False}
    elsewhere = one | {"webhook_id": "ep_9", "url": "https://b.example/other", "enabled": False}
    answer[:] = [one, two, elsewhere]
    watch.turn()
    ((level, what),) = found(workshop)
    assert level is Level.WARNING and "ep_2" in what, "another application's endpoint is not ours"
    answer[:] = [one]
    watch.turn()
    assert found(workshop) == [], "it was taken away, and the other delivers"
    answer[:] = [elsewhere]
    watch.turn()
    ((level, what),) = found(workshop)
    assert level is Level.CRITICAL and "no longer lists our webhook endpoint ep_1" in what
    answer[:] = [two | {"enabled": True}]
    watch.turn()
    assert found(workshop) == []


def test_an_account_without_an_endpoint_of_ours_is_a_warning(
    workshop: Workshop, watches: Watches, raw_server: RawServers
) -> None:
    server = raw_server(answering({"count": 0, "webhooks": []}))
    watches(server.url).turn()
    ((level, what),) = found(workshop)
    assert level is Level.WARNING and "lists no webhook endpoint of account acme" in what
    watches(server.url, more='endpoints = ["ep_1"]').turn()
    ((level, what),) = found(workshop)
    assert level is Level.CRITICAL and "no longer lists our webhook endpoint ep_1" in what


def test_which_endpoints_are_ours() -> None:
    mail, hook, foreign = (
        Endpoint(name, url, "enabled")
        for name, url in (
            ("1", "https://x.example/in/webhooks/mail/?a=1"),
            ("2", "https://x.example/hook"),
            ("3", "https://x.example/webhooks/mailing"),
        )
    )
    listed = [mail, hook, foreign]
    assert ours(listed, (), ["mail"]) == [mail]
    assert ours(listed, ("2", "4"), ["mail"]) == [hook, Endpoint("4", "", "gone")]


@pytest.mark.parametrize(
    "item",
    [
        {"webhook_id": "ep"},
        {"webhook_id": "ep", "enabled": 1},
        {"webhook_id": "ep", "enabled": "false"},
        {"webhook_id": 7, "enabled": True},
        "x",
        None,
    ],
    ids=str,
)
def test_a_flag_of_another_type_is_no_answer(raw_server: RawServers, item: Any) -> None:
    server = raw_server(answering({"count": 1, "webhooks": [item]}))
    assert isinstance(AgentMail("post", server.url, "k").endpoints(5.0), Unanswered)


def test_pages_are_followed_and_must_end(raw_server: RawServers) -> None:
    more = {
        "webhooks": [{"webhook_id": "ep", "url": "", "enabled": True}],
        "count": 1,
        "next_page_token": "t",
    }
    assert isinstance(AgentMail("post", raw_server(answering(more)).url, "k").endpoints(5.0), Unanswered)


def test_without_a_source_or_with_no_interval_nobody_is_asked(
    workshop: Workshop, provider: Sandbox, watches: Watches
) -> None:
    never = watches(provider.url, worker="endpoints_every_s = 0")
    never.pump()
    never.join(40)
    assert counted(workshop) == {"on": 0, "off": 0, "unanswered": 0}


def test_an_account_that_left_the_configuration_is_forgotten(
    workshop: Workshop, provider: Sandbox, watches: Watches
) -> None:
    workshop.database.run(lambda tx: endpoints.ask(tx, "gone", "AgentMail", every_s=0))
    workshop.run("UPDATE nottwice.endpoint_polls SET asked_at = now() - interval '1 h'")
    watch = watches(provider.url)
    watch.pump()
    watch.join(40)
    assert workshop.value("SELECT array_agg(account) FROM nottwice.endpoint_polls") == ["acme"]


def test_a_worker_asks_by_itself(
    workshop: Workshop, provider: Sandbox, settings: Callable[..., Settings]
) -> None:
    """As a process, beside its other duties; SIGTERM finds it ready to end."""
    settings(provider.url)
    process = workshop.start(
        "", more=CONFIG.format(url=provider.url, more=""), worker="endpoints_every_s = 0.2"
    )
    on = "SELECT count(*) = 1 AND bool_and(state = {!r}) FROM nottwice.endpoints"
    workshop.until(on.format("enabled"))
    switch(provider, enabled=False)
    workshop.until(on.format("disabled"))
    switch(provider, enabled=True)
    workshop.until(on.format("enabled"))
    process.signal(signal.SIGTERM)
    assert process.ended() == 0
