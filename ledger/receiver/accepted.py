"""What a sender is told when its delivery is safe: the source's success code, and nothing worth reading."""

from __future__ import annotations

from starlette.background import BackgroundTask
from starlette.responses import PlainTextResponse, Response

from ledger import faults


class AfterAnswer(BackgroundTask):
    """Runs when the answer is on its way: a place for tests to end the process."""

    def __init__(self) -> None:
        """Without a function: Starlette would run it in a thread, which costs more than storing the event."""

    async def __call__(self) -> None:
        after_answer()


def after_answer() -> None:
    """To be called when a success is on its way."""
    faults.point("receiver.after_answer")


def proof(text: str) -> Response:
    """The answer to a handshake. It repeats what a stranger sent, so nothing may take it for more than text."""
    return PlainTextResponse(text, headers={"X-Content-Type-Options": "nosniff"})


OK = {
    200: PlainTextResponse("ok\n", background=AfterAnswer()),
    202: PlainTextResponse("ok\n", 202, background=AfterAnswer()),
    204: Response(status_code=204, background=AfterAnswer()),
}
