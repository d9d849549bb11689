"""Cases from the field about e-mail headers and charsets, as bytes over HTTP against a real receiver: MSG."""

from __future__ import annotations

import email
import email.policy
import json
from email.policy import Policy

import pytest

from ledger.evidence.message_ids import in_headers
from ledger.kept.readable import readable
from ledger.payload.form import read
from tests import fix_receiver as fix
from tests.fix_receiver import Door

FOLDED = "Message-ID:\r\n\t<AbC1@mail.example.net>\r\nSubject: one\r\n"
UNFOLDED = "Subject: one\r\nMessage-Id: <AbC1@mail.example.net>\r\n"
ID = "AbC1@mail.example.net"


@pytest.mark.parametrize("policy", [email.policy.compat32, email.policy.default, email.policy.SMTP])
@pytest.mark.parametrize("head", [FOLDED, UNFOLDED])
def test_msg_01_pythons_own_header_leaves_what_ours_takes_away(policy: Policy, head: str) -> None:
    value = email.message_from_string(head + "\r\nHello\r\n", policy=policy)["Message-ID"]
    assert (
        in_headers(str(value)) == in_headers(head) == in_headers(head + "\r\nMessage-ID: <no@header>") == ID
    )


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f"<{ID}>", ID),
        (ID, ID),
        (f" \t<{ID}> \r\n", ID),
        ("Message-ID:<a@b>\nMessage-ID: <c@d>", "a@b"),
        ("message-id: <a@\r\n b>", "a@b"),
        ("X-Message-ID: <no@b>\nMessage-ID : <a@b>", "a@b"),
        *((text, None) for text in ("", " ", "<>", "< >", "a b", "<a@b> <c@d>", "Subject: x\r\nFrom: y", "Message-ID:")),
    ],
)  # fmt: skip
def test_msg_01_an_id_however_it_is_spelled(text: str, found: str | None) -> None:
    assert in_headers(text) == found


def test_msg_01_a_folded_header_and_an_unfolded_one_are_one_event(door: Door) -> None:
    for head in (FOLDED, UNFOLDED):
        assert _post(door, "headers", json.dumps({"headers": head}).encode()) == 200
        assert _post(door, "mails", f"{head}\r\nHello\r\n".encode()) == 200
    keys = door.rows("SELECT source, event_key FROM nottwice.events ORDER BY source")
    assert keys == [("headers", f"mail {ID}"), ("mails", f"mail {ID}")]
    assert _post(door, "mails", b"Subject: none\r\n\r\nMessage-ID: <in@the.text>\r\n") == 200
    assert door.rows("SELECT reason FROM nottwice.quarantine") == [("It has no usable key.",)]


def _mail(number: int, charset: str, text: bytes) -> bytes:
    fields = {
        "headers": f"Message-ID: <m{number}@example.net>\r\n".encode(),
        "charsets": json.dumps({"text": charset, "subject": "UTF-8"}).encode(),
        "subject": "Café".encode(),
        "text": text,
    }
    parts = (
        b'--xYzZY\r\nContent-Disposition: form-data; name="%b"\r\n\r\n%b\r\n' % (n.encode(), v)
        for n, v in fields.items()
    )
    return b"".join(parts) + b"--xYzZY--\r\n"


CHARSETS = [
    ("iso-8859-1", b"un caf\xe9", "un café", False),
    ("iso-8859-8-i", b"un caf\xe9", "un caf\ufffd", True),
    ("UTF-8", b"un caf\xe9", "un caf\ufffd", True),
    ("punycode", b"un cafe", "un cafe", True),
    ("windows-1252", b"10 \x80", "10 €", False),
]


def test_msg_07_inbound_parts_in_another_charset(door: Door) -> None:
    bodies = [_mail(number, charset, raw) for number, (charset, raw, _, _) in enumerate(CHARSETS)]
    for body in bodies:
        assert _post(door, "inbound", body, "multipart/form-data; boundary=xYzZY") == 200
    assert door.bodies() == bodies and door.count("quarantine") == 0
    for body, (_, _, text, marked) in zip(door.bodies(), CHARSETS, strict=True):
        shown = readable(body).text
        assert f":\n{text}" in shown and "subject:\nCafé" in shown
        assert ("text \u27e8decoding problem: not " in shown) is marked
        assert (read(body).texts["text"], "text" in read(body).problems) == (text, marked)


def test_msg_07_another_undecodable_text_is_other_content(door: Door) -> None:
    for raw in (b"caf\xe9", b"caf\xe8"):
        assert _post(door, "inbound", _mail(1, "UTF-8", raw), "multipart/form-data; boundary=xYzZY") == 200
    assert (door.count("events"), door.count("conflicts")) == (1, 1)


def _post(door: Door, source: str, body: bytes, content_type: str = "text/plain") -> int:
    headers = {"X-Signature": fix.signature(body), "Content-Type": content_type}
    return door.receiver.post(source, body, headers).status_code
