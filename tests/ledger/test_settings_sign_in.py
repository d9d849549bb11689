"""How people come in: what is refused before a console starts, with which line, and that nothing half starts."""

from __future__ import annotations

import re
import socket
from pathlib import Path

import pytest
from rich.console import Console

from ledger import check
from ledger.cli import words
from ledger.errors import Misconfigured
from ledger.running import processes
from ledger.settings import load
from ledger.settings.sign_in import is_loopback, origin_of
from tests.fix_home import NOBODY_LISTENS, Home

OIDC = """[console.sign_in]
issuer = "https://id.example.com"
client_id = "not-twice"
client_secret = "client"
cookie_secret = "cookies"
redirect_url = "https://desk.example.com/oauth2callback"
"""
PROXY = '[console.proxy]\nname = "gate"\nsecret = "shared"\nurl = "https://desk.example.com"\n'
ROLES = '[console.roles]\ngroups = { desk = "support" }\n'
DOCUMENT = Path(__file__).parents[2] / "docs" / "sign-in.md"
LONG = "a secret of thirty-two characters"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NOTTWICE_HOME", str(tmp_path))
    return tmp_path / "nottwice.toml"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('[console]\nhost = "0.0.0.0"\n', "line 2: [console] host reaches beyond this machine, and nobody signs in"),
        ('[console]\nhost = "::"\n', "line 2: [console] host reaches beyond this machine"),
        ('[console]\nhost = ""\n', "line 2: [console] host reaches beyond this machine"),
        ('[console]\nhost = "desk.local"\n', "line 2: [console] host reaches beyond this machine"),
        ('[console]\nhost = "localhost.evil.example"\n', "line 2: [console] host reaches beyond this machine"),
        ('[console]\nhost = "192.168.1.4"\n', "line 2: [console] host reaches beyond this machine"),
        ('[console]\nhost = "[::1]"\n', "line 2: [console] host is no address to listen on"),
        ('[console]\nhost = "[::]"\n' + OIDC + ROLES, "line 2: [console] host is no address to listen on"),
        ('[console]\nhost = "unix:///x"\n' + OIDC + ROLES, "line 2: [console] host is no address to listen on"),
        ('[console]\nhost = "a..b"\n' + OIDC + ROLES, "line 2: [console] host is no address to listen on"),
        ('[receiver]\nhost = "[::1]"\n', "line 2: [receiver] host is no address to listen on"),
        ('[console]\nhost = ""\n' + OIDC + ROLES, "line 2: [console] host is empty"),
        (ROLES, "line 1: [console] roles says as what people come in, and nobody signs in: it would mean nothing."),
        (OIDC.replace("id.example.com", "id.example.com/a b") + ROLES, "line 2: [console.sign_in] issuer is no address"),
        (OIDC.replace("id.example.com", "id.example.com?a=b") + ROLES, "line 2: [console.sign_in] issuer holds ? or #"),
        (OIDC + 'email_domains = ["@x.example"]\n' + ROLES, "line 7: [console.sign_in] email_domains holds what is no domain"),
        (PROXY + 'email_domains = ["a.example", " x.example"]\n' + ROLES, "line 5: [console.proxy] email_domains holds what"),
        (PROXY + '[console.roles]\ndomains = { " x.example" = "viewer" }\n', "is not a domain, as example.com"),
        (PROXY + '[console.roles]\nemails = { "a@x.example " = "viewer" }\n', "is not an address, as ana@example.com"),
        (PROXY.replace("example.com", "example.com/desk") + ROLES, "line 4: [console.proxy] url must be the console's address"),
        (PROXY + 'user_header = "Host"\n' + ROLES, "line 5: [console.proxy] user_header is a header of browsers and servers"),
        (PROXY + 'secret_header = "Cookie"\n' + ROLES, "line 5: [console.proxy] secret_header is a header of browsers and"),
        (PROXY + 'sign_out_url = "//evil.example"\n' + ROLES, "line 5: [console.proxy] sign_out_url is no address"),
        (PROXY + "sign_out_url = '/\\evil.example'\n" + ROLES, "line 5: [console.proxy] sign_out_url is no address"),
        (OIDC + PROXY + ROLES, "line 7: [console] proxy cannot stand beside [console.sign_in]"),
        (OIDC, "[console] roles gives nobody a role, so nobody could come in"),
        (PROXY, "[console] roles gives nobody a role, so nobody could come in"),
        (OIDC.replace("https://id", "http://id") + ROLES, "line 2: [console.sign_in] issuer must begin with https://"),
        (OIDC.replace("https://id.example.com", "id.example.com") + ROLES, "line 2: [console.sign_in] issuer is no address"),
        (OIDC.replace("https://desk", "http://desk") + ROLES, "line 6: [console.sign_in] redirect_url must begin with https://"),
        (OIDC.replace("/oauth2callback", "/back") + ROLES, "line 6: [console.sign_in] redirect_url must be the console's address"),
        (OIDC + 'scope = "email"\n' + ROLES, "line 7: [console.sign_in] scope must hold openid"),
        (OIDC + "leeway_s = 301\n" + ROLES, "line 7: [console.sign_in] leeway_s must be less than or equal to 300."),
        (OIDC + 'cilent = "x"\n' + ROLES, "line 7: [console.sign_in] cilent is not a setting; did you mean client_id?"),
        (OIDC + 'verified_claim = ""\nemail_domains = ["a.example"]\n' + ROLES, "line 8: [console.sign_in] email_domains needs"),
        (OIDC + 'verified_claim = ""\n' + ROLES + 'emails = { "a@b.example" = "admin" }\n',
         "line 7: [console.sign_in] verified_claim is empty, so no address gives a role"),
        (OIDC + '[console.roles]\nemails = { "acme.example" = "admin" }\n', "line 8: [console.roles.emails] acme.example is not an"),
        (OIDC + '[console.roles]\ndomains = { "a@acme.example" = "admin" }\n', "line 8: [console.roles.domains] a@acme.example is not a"),
        (OIDC + '[console.roles]\ndomains = { "A.example" = "admin", "a.example" = "viewer" }\n', "stands here twice"),
        (OIDC + '[console.roles]\ngroups = { desk = "boss" }\n', "line 8: [console.roles.groups] desk must be one of viewer"),
        (PROXY + 'user_header = "X User"\n' + ROLES, "line 5: [console.proxy] user_header is no name of a header."),
        (PROXY + 'user_header = "x-not-twice-secret"\n' + ROLES, "must be five different ones"),
        (PROXY + 'sign_out_url = "javascript:x"\n' + ROLES, "line 5: [console.proxy] sign_out_url is no address"),
    ],
)  # fmt: skip
def test_a_door_that_would_not_hold_is_named_with_its_line(file: Path, text: str, sentence: str) -> None:
    file.write_text(text)
    with pytest.raises(Misconfigured) as refused:
        load()
    assert sentence in str(refused.value)


@pytest.mark.parametrize("door", [OIDC, PROXY])
def test_a_door_that_holds_may_listen_anywhere(
    file: Path, monkeypatch: pytest.MonkeyPatch, door: str
) -> None:
    file.write_text('[console]\nhost = "0.0.0.0"\n' + door + ROLES)
    for name in ("CLIENT", "COOKIES", "SHARED"):
        monkeypatch.setenv(f"NOTTWICE_SECRET_{name}", LONG)
    settings = load()
    assert processes.console(settings).ready_url == "http://127.0.0.1:8501/_stcore/health"
    assert settings.console.door and settings.console.door.origin == "https://desk.example.com"
    drawn = Console(width=200)
    with drawn.capture() as shown:
        drawn.print(words.up_banner(settings))
    assert "https://desk.example.com" in shown.get() and "127.0.0.1:8501" not in shown.get()


SHOWN = re.findall(r"```toml\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("text", SHOWN)
def test_what_the_document_shows_is_a_configuration(file: Path, text: str) -> None:
    file.write_text(text.replace("TENANT-ID", "5f0c").replace("APPLICATION-ID", "77aa"))
    assert load().console.door


@pytest.mark.parametrize(("door", "name"), [(OIDC, "COOKIES"), (PROXY, "SHARED")])
def test_a_secret_that_could_be_guessed_is_refused_without_being_repeated(
    file: Path, monkeypatch: pytest.MonkeyPatch, door: str, name: str
) -> None:
    file.write_text(door + ROLES)
    monkeypatch.setenv("NOTTWICE_SECRET_CLIENT", LONG)
    with pytest.raises(Misconfigured, match=f"The secret {name.lower()} is nowhere") as refused:
        processes.console(load())
    assert re.search(
        r"nottwice.toml, line \d: \[console\.\w+\] \w*secret cannot be used: ", str(refused.value)
    )
    monkeypatch.setenv(f"NOTTWICE_SECRET_{name}", " " * 40)
    with pytest.raises(Misconfigured, match=f"is empty in NOTTWICE_SECRET_{name}"):
        processes.console(load())
    monkeypatch.setenv(f"NOTTWICE_SECRET_{name}", "sesame".ljust(40))
    with pytest.raises(Misconfigured, match="shorter than 32 characters"):
        processes.console(load())
    monkeypatch.setenv(f"NOTTWICE_SECRET_{name}", "sesame")
    with pytest.raises(Misconfigured, match="shorter than 32 characters") as refused:
        processes.console(load())
    assert "sesame" not in str(refused.value) and ", line " in str(refused.value)
    (found,) = check.refused_at_a_start(load())
    assert found.level is check.Level.WARNING
    assert found.what == f"A console could not start here, so nobody could sign in: {refused.value}"
    monkeypatch.setenv(f"NOTTWICE_SECRET_{name}", LONG)
    assert not check.refused_at_a_start(load())


@pytest.mark.parametrize("secret", [f"{LONG}\n{LONG}", f"{LONG}\t{LONG}", "ä" * 40, f"{LONG}\x7f"])
def test_a_secret_that_no_header_carries_is_refused_with_its_line(
    file: Path, monkeypatch: pytest.MonkeyPatch, secret: str
) -> None:
    file.write_text(PROXY + ROLES)
    monkeypatch.setenv("NOTTWICE_SECRET_SHARED", secret)
    with pytest.raises(
        Misconfigured, match=r"line 3: \[console.proxy\] secret names the secret shared, which no"
    ):
        processes.console(load())


def test_an_address_of_another_machine_is_not_called_a_busy_port(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is for documents (RFC 5737), so no machine has it; and what the system says of an unknown name."""
    file.write_text('[console]\nhost = "192.0.2.1"\n' + PROXY + ROLES)
    monkeypatch.setenv("NOTTWICE_SECRET_SHARED", LONG)
    with pytest.raises(Misconfigured) as refused:
        processes.refuse_busy_ports([processes.console(load())])
    unknown = processes.unusable(socket.gaierror(-2, "Name or service not known"), "console", "desk", 8501)
    for said, host in ((str(refused.value), "192.0.2.1"), (unknown, "desk")):
        assert f"[console] host is {host}, which is no address of this machine" in said
        assert "port" not in said


@pytest.mark.parametrize(("address", "refused"), [("0.0.0.0", True), ("::", True), ("127.0.0.1", False)])
def test_streamlits_own_variable_is_not_ignored_unseen(
    file: Path, monkeypatch: pytest.MonkeyPatch, address: str, refused: bool
) -> None:
    file.write_text("")
    monkeypatch.setenv("STREAMLIT_SERVER_ADDRESS", address)
    if not refused:
        assert processes.console(load())
        return
    with pytest.raises(Misconfigured, match="STREAMLIT_SERVER_ADDRESS is set to another address"):
        processes.console(load())


@pytest.mark.parametrize("command", ["console", "up"])
def test_nothing_starts_that_everybody_could_enter(home: Home, command: str) -> None:
    home.configure('[console]\nhost = "0.0.0.0"\n')
    done = home.run(command, DATABASE_URL=NOBODY_LISTENS)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{home.folder}/nottwice.toml, line 2: [console] host reaches beyond this machine" in done.stderr
    assert sorted(path.name for path in home.folder.iterdir()) == ["nottwice.toml"], "not even a folder"


@pytest.mark.parametrize(
    ("host", "is_it"),
    [
        *((one, True) for one in ("127.0.0.1", "127.8.9.1", "::1", "[::1]", "localhost")),
        *(
            (one, False)
            for one in ("0.0.0.0", "::", "", "localhost.", "127.1", "2130706433", "127.0.0.1.nip.io")
        ),
        ("::ffff:8.8.8.8", False),
    ],
)
def test_what_only_this_machine_reaches(host: str, is_it: bool) -> None:
    assert is_loopback(host) is is_it


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("https://Desk.example.com/a?b", "https://desk.example.com"),
        ("https://desk.example.com:443", "https://desk.example.com"),
        ("http://127.0.0.1:8501/oauth2callback", "http://127.0.0.1:8501"),
        ("http://[::1]:80/", "http://[::1]"),
        *(
            (bad, "")
            for bad in ("desk.example.com", "ftp://a", "https://", "https://a@b", "https://a:x", "//a", "")
        ),
    ],
)
def test_an_address_has_one_origin(url: str, origin: str) -> None:
    assert origin_of(url) == origin
