"""A stand-in for the providers: their APIs over HTTP as their published packages call them, with fault switches.

    GET    /sandbox/mails      every e-mail accepted: time, provider, path, idempotency_key, recipients, body_digest,
                               message_id, subject …; `?provider=`, `?to=` and `?key=` narrow it
    GET    /sandbox/requests   every send asked for, noted before it was answered: time, provider, path,
                               idempotency_key, body_digest (the last 10,000)
    PUT    /sandbox/faults     what happens to the next answers: one fault, a list, or {"faults": [...]}; replaces all
    POST   /sandbox/faults     the same, added after those that are armed
    GET    /sandbox/faults     the faults that are still armed
    DELETE /sandbox/faults     none any more
    GET    /sandbox/webhooks   how webhooks about accepted e-mails travel, and what became of them
    PUT    /sandbox/webhooks   another habit of theirs; `courier.py` says which there are
    POST   /sandbox/webhooks   post what is held
    POST   /sandbox/incoming   a message arrives at an inbox: a `message.received` as its webhook tells it, which is
                               posted only with `?deliver=true`; answers whether AgentMail's endpoint is switched on
    DELETE /sandbox/keys       every idempotency key is forgotten, as after its window
    GET    /                   the provider's own log, for a person; `?to=` and `?provider=` narrow it
    GET    /healthz            200

Beside the routes under /sandbox/ stand those of the APIs; `post.py` is the mail server, with the same log and faults.
A fault is a JSON object; `faults.py` says what it can do. `{"provider": "inboxili", "accept_then_silence": true}`:
the next e-mail through Inboxili is accepted, and its sender never learns it.
"""

from __future__ import annotations

from collections.abc import Mapping

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from worker.sandbox import apis
from worker.sandbox.apis import Invalid
from worker.sandbox.courier import Courier
from worker.sandbox.desk import Desk
from worker.sandbox.faults import Faults
from worker.sandbox.incoming import Incoming
from worker.sandbox.reader import Reader
from worker.sandbox.store import Store
from worker.sandbox.switchboard import Switchboard

INBOX = "/v0/inboxes/{inbox}"


class Door:
    """Gives each request its own connection, so that an answer can be to cut it (only uvicorn shows it to us), and

    routes by the path as it was sent: a quoted slash in an id is not a slash.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope["sandbox.connection"] = send.__self__.transport  # type: ignore[attr-defined]
            scope["path"] = scope["raw_path"].decode("ascii")
        await self._app(scope, receive, send)


def create(
    store: Store,
    keys: Mapping[str, str] | None = None,
    faults: Faults | None = None,
    courier: Courier | None = None,
    incoming: Incoming | None = None,
) -> ASGIApp:
    """The ASGI application. `keys`: the bearer key by provider; without one any key is taken.

    Without a courier nobody is told what became of an e-mail.
    """
    faults, incoming = faults or Faults(), incoming or Incoming()
    desk, board = Desk(store, keys or {}, faults, courier), Switchboard(store, faults, courier, incoming)
    read = Reader(store, incoming, faults, courier, desk.check_bearer, desk.sends)
    routes = [
        Route(f"{INBOX}/messages/send", desk.agentmail, methods=["POST"]),
        Route(f"{INBOX}/messages/{{message}}/reply", desk.agentmail, methods=["POST"]),
        Route(f"{INBOX}/messages/{{message}}/reply-all", desk.agentmail, methods=["POST"]),
        Route(f"{INBOX}/messages", read.messages),
        Route(f"{INBOX}/messages/{{message}}", read.message),
        Route("/v0/threads/{thread}", read.thread),
        Route(f"{INBOX}/threads/{{thread}}", read.thread),
        Route("/v0/webhooks", read.endpoints),
        Route("/api/v1/transactional/send", desk.inboxili, methods=["POST"]),
        Route("/mailboxes/{mailbox}/send", desk.mailera, methods=["POST"]),
        Route("/sends/{send}", read.send),
        Route("/sandbox/mails", board.mails),
        Route("/sandbox/requests", board.requests),
        Route("/sandbox/faults", board.switches, methods=["GET", "PUT", "POST", "DELETE"]),
        Route("/sandbox/webhooks", board.webhooks, methods=["GET", "PUT", "POST"]),
        Route("/sandbox/incoming", board.incoming, methods=["POST"]),
        Route("/sandbox/keys", board.forget_keys, methods=["DELETE"]),
        Route("/sandbox/log", lambda _: RedirectResponse("/")),
        Route("/healthz", lambda _: Response("ok")),
        Route("/", board.log),
    ]
    return Door(Starlette(routes=routes, exception_handlers={Invalid: _invalid}))


async def _invalid(request: Request, error: Exception) -> Response:
    if not isinstance(error, Invalid):
        raise error
    provider = getattr(request.state, "provider", "agentmail")
    return JSONResponse(apis.problem(provider, error.code, str(error)), error.status)
