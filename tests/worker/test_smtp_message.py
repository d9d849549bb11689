"""A message as SMTP gets it: 7-bit, short lines, headers that nobody breaks out of, the same bytes each time."""

from __future__ import annotations

import email
import email.policy
from datetime import UTC, datetime
from email.message import EmailMessage
from typing import Any

import pytest

from ledger.records import Email, canonical_json
from tests.worker.mail_servers import OddServer
from tests.worker.test_provider_content import HOSTILE_NAMES, HOSTILE_SUBJECTS, UNSENDABLE
from tests.worker.test_smtp import DEADLINE_S, action, server
from worker.providers.content import Unsendable
from worker.providers.smtp_message import Letter, letter

AT = datetime(2026, 11, 30, 12, 0, 7, 999, tzinfo=UTC)
MAIL = Email(to=("ana@example.com",), subject="Hello", text="T", sender="Shop <shop@example.com>")


def written(**changes: Any) -> Letter:
    return letter(canonical_json(MAIL.content() | changes), "nt-0123456789abcdef", AT)


def read(given: Letter) -> EmailMessage:
    found = email.message_from_bytes(given.data, policy=email.policy.default)
    assert isinstance(found, EmailMessage)
    return found


def test_what_a_reader_sees() -> None:
    more = {"cc": ["Bo <bo@example.com>"], "bcc": ["cy@example.com"], "reply_to": ["r@example.com"]}
    found = read(written(**more, html="<p>T</p>", in_reply_to="<m@x>"))
    assert {name: found[name] for name in ("From", "To", "Cc", "Reply-To", "Subject", "Bcc")} == {
        "From": "Shop <shop@example.com>", "To": "ana@example.com", "Cc": "Bo <bo@example.com>",
        "Reply-To": "r@example.com", "Subject": "Hello", "Bcc": None,
    }  # fmt: skip
    assert found["Message-ID"] == "<nt-0123456789abcdef@example.com>"
    assert found["Date"].datetime == AT.replace(microsecond=0)
    assert (found["In-Reply-To"], found["References"]) == ("<m@x>", "<m@x>")
    assert [part.get_content_type() for part in found.iter_parts()] == ["text/plain", "text/html"]


def test_bcc_stands_in_the_envelope_alone() -> None:
    given = written(bcc=["cy@example.com", "ana@example.com"])
    assert given.recipients == ("ana@example.com", "cy@example.com")
    assert b"cy@example.com" not in given.data


def test_the_same_bytes_each_time() -> None:
    more = {"html": "<p>T</p>", "text": "ü" * 500}
    assert written(**more).data == written(**more).data


TEXTS = [
    "plain", ".", "..", "a\n.\nb", ".\r\n.\r\n", "\r\n.\r\nMAIL FROM:<x@y>", "a\rb\r\nc\nd", "ü日本🎉\n" * 3, "x" * 5000,
    "ü" * 5000, "From here\n>From", " trailing \t\n", "=3D =\n", "\x00\x0b\x0c\x1c\x85\u2028", "--=_nt-0123456789abcdef--\n",
]  # fmt: skip


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_a_text_arrives_as_it_was_written(text: str) -> None:
    given = written(text=text, html="<p>.</p>")
    assert given.data.isascii() and b"\r\n.\r\n" not in given.data
    assert all(
        len(line) <= 78 and b"\r" not in line and b"\n" not in line for line in given.data.split(b"\r\n")
    )
    part = read(given).get_body(("plain",))
    assert part is not None
    arrived = part.get_payload(decode=True)
    assert isinstance(arrived, bytes)
    assert arrived.decode().replace("\r\n", "\n").rstrip("\n") == text.replace("\r\n", "\n").replace(
        "\r", "\n"
    ).rstrip("\n")


def test_a_part_that_is_empty_is_none() -> None:
    assert read(written(text="", html="<p>T</p>")).get_content_type() == "text/html"
    assert read(written(text="")).get_content_type() == "text/plain"


def test_dots_are_doubled_on_the_wire_and_taken_away_at_its_end() -> None:
    """RFC 5321, 4.5.2. The text's own dots are quoted, so a line of HTML is what can begin with one."""
    with OddServer() as odd:
        server(odd.url).send(action(text=".hidden\n..two"), DEADLINE_S)
    (text,) = odd.texts
    assert b"\r\n..hidden\r\n...two\r\n" in text


@pytest.mark.parametrize("subject", HOSTILE_SUBJECTS, ids=range(len(HOSTILE_SUBJECTS)))
def test_msg_06_a_subject_is_one_line(subject: str) -> None:
    given = written(subject=subject)
    found = read(given)
    assert found["Bcc"] is None
    assert str(found["Subject"]) == (HOSTILE_SUBJECTS[subject] or subject)
    assert all(len(line) <= 78 for line in given.data.partition(b"\r\n\r\n")[0].split(b"\r\n"))


NAMES = {
    **HOSTILE_NAMES,
    "Søren, \"S\" <x@example.org> <ana@example.com>": None,
    "日本, " * 60 + "<ana@example.com>": None,
    "x" * 900 + " <ana@example.com>": None,
    "=?utf-8?q?evil=2C_x=40example=2Eorg?= <ana@example.com>": None,
}  # fmt: skip


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_msg_06_a_name_makes_no_second_recipient(name: str) -> None:
    given = written(to=[name])
    assert given.recipients == ("ana@example.com",)
    (only,) = read(given)["To"].addresses
    assert only.addr_spec == "ana@example.com"
    assert all(
        len(line) <= 78 or b'"' in line for line in given.data.partition(b"\r\n\r\n")[0].split(b"\r\n")
    )


@pytest.mark.parametrize("replied", ["m-7", "<a b@x>", "<a@b>\r\nBcc: x@y", "<" + "x" * 900 + "@y>", "<å@b>"])
def test_an_id_that_is_none_is_not_answered_to(replied: str) -> None:
    found = read(written(in_reply_to=replied))
    assert found["In-Reply-To"] is None and found["Bcc"] is None


@pytest.mark.parametrize("case", UNSENDABLE)
def test_what_cannot_be_sent_is_refused_without_a_call(case: str) -> None:
    with pytest.raises((Unsendable, ValueError)):
        written(**UNSENDABLE[case])


def test_only_an_address_makes_it_need_more_than_ascii() -> None:
    assert not written(subject="日本", text="ü", to=["Søren <so@bücher.example>"]).unicode
    assert written(to=["søren@example.com"]).unicode
    assert written(sender="søren@example.com").unicode
