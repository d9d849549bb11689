"""The provider's own log as a page: what a person opens to find out whether a message went out."""

from __future__ import annotations

import html
from collections.abc import Mapping

from starlette.responses import HTMLResponse, Response

from ledger.settings.providers import LABELS
from worker.sandbox.store import Mail, Store

ROWS_MAX = 300
# Recipients and subjects were written by strangers: nothing on this page may run or load.
HEADERS = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'"}
STYLE = """:root{color-scheme:light dark}body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:72rem;padding:0 1rem}
form{margin:1rem 0}input{font:inherit;padding:.3rem .5rem;width:20rem}button,select{font:inherit;padding:.3rem .6rem}
.rows{overflow-x:auto}table{border-collapse:collapse;width:100%}
th,td{text-align:left;vertical-align:top;padding:.4rem .9rem .4rem 0;border-bottom:1px solid #8885}
th{font-size:.85rem;font-weight:600}code{font-size:.8rem;overflow-wrap:anywhere}.quiet{opacity:.7}"""
HEADINGS = ("Accepted (UTC)", "Provider", "To", "Subject", "Message id")


def log_page(store: Store, query: Mapping[str, str]) -> Response:
    """Everything from outside is escaped; a page without scripts."""
    provider, to = query.get("provider", ""), query.get("to", "")
    found = store.find(provider=provider, to=to)
    shown = found[: -ROWS_MAX - 1 : -1]
    body = (
        f"<h1>The sandbox provider's own log</h1>{_form(provider, to)}"
        f"<p class=quiet>{_count(len(shown), len(found), len(store.mails))}</p>{_table(shown)}"
    )
    return HTMLResponse(
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<title>Sandbox provider: its log</title><style>{STYLE}</style>{body}</html>",
        headers=HEADERS,
    )


def _form(provider: str, to: str) -> str:
    options = "".join(
        f"<option value='{name}'{' selected' if name == provider else ''}>{label}</option>"
        for name, label in {"": "any provider", **LABELS}.items()
    )
    return (
        f"<form><input name=to value='{html.escape(to)}' placeholder='recipient or subject' aria-label='recipient or subject'> "
        f"<select name=provider aria-label=provider>{options}</select> <button>Look</button></form>"
    )


def _count(shown: int, found: int, total: int) -> str:
    if not found:
        return f"Nothing here fits. {total} e-mails were accepted; what is not in this log did not go out."
    newest = "newest first" if shown == found else f"the newest {shown} are shown"
    return f"{found} of {total} accepted e-mails fit, {newest}. This log misses nothing and is never late; a real provider's may."


def _table(mails: list[Mail]) -> str:
    if not mails:
        return ""
    head = "".join(f"<th>{name}</th>" for name in HEADINGS)
    rows = "".join(_row(mail) for mail in mails)
    return f"<div class=rows><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"


def _row(mail: Mail) -> str:
    subject = mail.subject or ("(a reply)" if mail.in_reply_to else "(no subject)")
    at = mail.time[:19].replace("T", " ")
    cells = (at, mail.provider, ", ".join(mail.recipients), subject)
    plain = "".join(f"<td>{html.escape(cell)}</td>" for cell in cells)
    return f"<tr>{plain}<td><code>{html.escape(mail.message_id)}</code></td></tr>"
