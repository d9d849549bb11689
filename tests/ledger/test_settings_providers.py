"""`[providers.NAME]`: what each kind takes, and what it refuses with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledger.errors import Misconfigured
from ledger.settings import load
from ledger.settings.mailera import MaileraSpelling
from ledger.settings.providers import ProviderSettings


def provider(text: str, folder: Path) -> ProviderSettings:
    file = folder / "nottwice.toml"
    file.write_text("[providers.p]\n" + text)
    return load(file).providers["p"]


MAILERA = 'kind = "mailera"\nkey = "k"\nbase_url = "https://mail.example"\n'
SPELLING = MAILERA + "[providers.p.spelling]\n"
AGENTMAIL = 'kind = "agentmail"\nkey = "k"\n'
INBOXILI = 'kind = "inboxili"\nkey = "k"\n'
SMTP = 'kind = "smtp"\nbase_url = "smtp://mail.example"\n'


def test_what_a_kind_is_known_for(tmp_path: Path) -> None:
    found = [provider(text, tmp_path) for text in (AGENTMAIL, INBOXILI, MAILERA, SMTP)]
    assert [one.window_s for one in found] == [86_400.0, None, 86_400.0, None]
    assert [one.timeout_s for one in found] == [30.0, 30.0, 30.0, 660.0]
    assert [one.look_s for one in found] == [
        30.0,
        0.0,
        30.0,
        0.0,
    ]  # else a mail server's patience holds all look-ups


@pytest.mark.parametrize(
    ("more", "server"),
    [
        ("", ("mail.example", 587)),
        ('security = "tls"\n', ("mail.example", 465)),
        ('security = "plain"\nunencrypted = true\n', ("mail.example", 25)),
    ],
)
def test_a_mail_servers_port_follows_from_its_security(
    tmp_path: Path, more: str, server: tuple[str, int]
) -> None:
    assert provider(SMTP + more, tmp_path).server == server


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]"])
def test_plain_is_allowed_to_this_machine(tmp_path: Path, host: str) -> None:
    table = f'kind = "smtp"\nbase_url = "smtp://{host}:2525"\nsecurity = "plain"\n'
    assert provider(table, tmp_path).server == (host.strip("[]"), 2525)


def test_what_is_assumed_of_mailera_is_said_in_one_place() -> None:
    assert MaileraSpelling().send_id_path == "id"
    assert ProviderSettings(kind="mailera", key="k", base_url="https://x").spelling == MaileraSpelling()


@pytest.mark.parametrize(
    ("log_url", "address"),
    [
        ("https://x/log", "https://x/log"),
        (
            "https://x/?q={subject}&to={recipient}",
            "https://x/?q=Caf%C3%A9%20%26%20%7Brecipient%7D%23&to=a%2Bb%40x.example",
        ),
        ("https://x/" + "{subject}" * 2, "https://x/" + "Caf%C3%A9%20%26%20%7Brecipient%7D%23" * 2),
        ("", ""),
    ],
)
def test_a_log_is_opened_with_what_tells_a_send_apart(log_url: str, address: str) -> None:
    provider = ProviderSettings(kind="agentmail", key="k", log_url=log_url)
    assert provider.log_of("Café & {recipient}#", "a+b@x.example") == address


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('kind = "postmark"\nkey = "k"\n', "line 2: [providers.p] kind must be one of agentmail, inboxili, mailera, smtp"),
        ('kind = "agentmail"\n', "line 1: [providers.p] key is missing."),
        (AGENTMAIL + 'base_url = "api.agentmail.to"\n', "line 4: [providers.p] base_url is no address of an API"),
        (AGENTMAIL + 'base_url = "http://x:99999"\n', "line 4: [providers.p] base_url is no address of an API"),
        (AGENTMAIL + 'base_url = "https://me:pw@x"\n', "line 4: [providers.p] base_url is no address of an API"),
        (AGENTMAIL + 'base_url = "https://a b"\n', "line 4: [providers.p] base_url is no address of an API"),
        (AGENTMAIL + 'base_url = "https://x "\n', "line 4: [providers.p] base_url is no address of an API"),
        (AGENTMAIL + 'log_url = "javascript:alert(1)"\n', "line 4: [providers.p] log_url is no page that a person can open"),
        (AGENTMAIL + 'log_url = "https://u:p@x"\n', "line 4: [providers.p] log_url is no page that a person can open"),
        (AGENTMAIL + 'log_url = "https://x/?q={sbject}"\n', "line 4: [providers.p] log_url has no {sbject}; of a send it may name"),
        (AGENTMAIL + 'account = " "\n', "line 4: [providers.p] account is blank, or begins or ends with a blank"),
        (AGENTMAIL + "window_s = 86401\n", "line 4: [providers.p] window_s is 86401; AgentMail keeps a key for 86400 s"),
        (MAILERA + "window_s = 1e13\n", "line 5: [providers.p] window_s must be less than or equal to 3153600000."),
        (MAILERA + "window_s = 90000\n", "line 5: [providers.p] window_s is 90000; Mailera keeps a key for 86400 s"),
        (AGENTMAIL + "margin_s = 1e12\n", "line 4: [providers.p] margin_s must be less than or equal to 3153600000."),
        (AGENTMAIL + 'account = "a"\n[providers.q]\nkind = "inboxili"\nkey = "k"\naccount = "a"\n',
         "line 8: [providers.q] account is the account of [providers.p] too, which is of another kind or at another address"),
        (AGENTMAIL + 'account = "q"\n[providers.q]\nkind = "agentmail"\nkey = "k"\nbase_url = "https://x"\n',
         "[providers.q] account is the account of [providers.p] too"),
        (AGENTMAIL + 'user = "me"\n', "line 4: [providers.p] user is not for kind agentmail; kind smtp takes it."),
        (AGENTMAIL + "[providers.p.spelling]\n", "[providers.p] spelling is not for kind agentmail; kind mailera takes it."),
        (INBOXILI + 'endpoints = ["ep"]\n', "line 4: [providers.p] endpoints is not for kind inboxili; kind agentmail takes it."),
        (INBOXILI + "window_s = 60\n", "line 4: [providers.p] window_s is not for kind inboxili, which has no idempotency keys."),
        (SMTP + "window_s = 60\n", "line 4: [providers.p] window_s is not for kind smtp, which has no idempotency keys."),
        ('kind = "mailera"\nkey = "k"\n', "[providers.p] base_url is missing; Mailera does not publish one"),
        (SPELLING + 'auth_header = "X Key"\n', "line 6: [providers.p.spelling] auth_header is no name of a header"),
        (SPELLING + 'auth_header = "Idempotency-Key"\n', "line 6: [providers.p.spelling] auth_header is no name of a header that"),
        (SPELLING + 'auth_prefix = "a\\nb"\n', "line 6: [providers.p.spelling] auth_prefix is no beginning"),
        (SPELLING + 'code_path = "a..b"\n', "line 6: [providers.p.spelling] code_path has an empty part"),
        (SPELLING + 'to_path = ""\n', "line 6: [providers.p.spelling] to_path is empty; without it nothing can be sent"),
        (SPELLING + 'send_id_path = ""\n', "line 6: [providers.p.spelling] send_id_path is empty"),
        (SPELLING + 'cc_path = "to"\n', "line 6: [providers.p.spelling] cc_path stands where to_path does."),
        (SPELLING + 'html_path = "text.html"\n', "line 6: [providers.p.spelling] html_path stands where text_path does."),
        (SPELLING + 'in_flight = ["busy"]\n', "line 6: [providers.p.spelling] in_flight is a list of statuses from 400"),
        (SPELLING + 'in_flight = ["202"]\n', "line 6: [providers.p.spelling] in_flight is a list of statuses from 400"),
        (SPELLING + 'mismatch = ["409"]\n', "line 6: [providers.p.spelling] mismatch has 409, which in_flight has as well."),
        (SPELLING + 'lookup_by = "key"\n', "line 6: [providers.p.spelling] lookup_by is not a setting; did you mean look_up_by?"),
        (SPELLING + 'look_up_by = "id"\n', "line 6: [providers.p.spelling] look_up_by must be one of"),
        ('kind = "smtp"\n', "[providers.p] base_url is no mail server; write it as smtp://host or smtp://host:587."),
        ('kind = "smtp"\nbase_url = "https://x"\n', "line 3: [providers.p] base_url is no mail server"),
        ('kind = "smtp"\nbase_url = "smtp://u:p@x"\n', "line 3: [providers.p] base_url is no mail server"),
        ('kind = "smtp"\nbase_url = "smtp://x:smtp"\n', "line 3: [providers.p] base_url is no mail server"),
        (SMTP + 'user = "me"\n', "[providers.p] key is missing."),
        (SMTP + 'key = "k"\n', "[providers.p] user is missing, and the password that `key` names is for nobody."),
        (SMTP + 'security = "ssl"\n', "line 4: [providers.p] security must be one of starttls, tls, plain"),
        (SMTP + 'security = "plain"\n', "line 4: [providers.p] security is plain, which sends password and letters readable"),
        (SMTP + 'helo = "a b"\n', "line 4: [providers.p] helo is no name of a host"),
        (SMTP + "step_s = 700\n", "line 4: [providers.p] step_s is 700; the whole call has 660 (timeout_s)."),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_its_line(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(Misconfigured) as refused:
        provider(text, tmp_path)
    assert sentence in str(refused.value)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("", "https://API.AgentMail.to/", True),
        ("https://x", "https://x:443/", True),
        ("https://x/v0/", "https://X/v0", True),
        ("https://x/v0", "https://x/V0", False),
        ("http://x", "https://x", False),
        ("https://x", "https://x:8443", False),
        ("", "https://api.agentmail.eu", False),
    ],
)
def test_two_spellings_of_an_address_are_one_place(one: str, other: str, same: bool) -> None:
    first, second = (ProviderSettings(kind="agentmail", key="k", base_url=url) for url in (one, other))
    assert (first.place == second.place) is same


def test_a_mail_server_is_one_place_with_its_port_left_out(tmp_path: Path) -> None:
    first, second = (ProviderSettings(kind="smtp", base_url=url) for url in ("smtp://X", "smtp://x:587/"))
    assert first.place == second.place == "smtp smtp://x:587"


def test_two_names_of_one_account_at_one_place_may_share_it(tmp_path: Path) -> None:
    more = '[providers.q]\nkind = "agentmail"\nkey = "other"\naccount = "p"\nbase_url = "https://api.agentmail.to/"\n'
    assert provider(AGENTMAIL + more, tmp_path).account == "p"
