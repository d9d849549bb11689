"""smtplib, driven by the command (RFC 5321), on a connection that can be cut, with replies read strictly.

Traps of smtplib that are answered here: one class of error stands for a lost connection before and after the text;
`sendmail` hides which recipients were refused, and a line that is too long is told as a refusal (500) by the server;
what is no reply at all becomes the code -1; its constructor asks the name service for our own name.
"""

from __future__ import annotations

import re
import smtplib
import socket
import ssl
from dataclasses import dataclass
from typing import Any

from worker.providers.content import one_line
from worker.providers.wire import Line, connect_s, read_s

LINE_BYTES_MAX = 8192
LINES_MAX = 100
REPLY = re.compile(rb"[2-5][0-9]{2}(?:[ -][^\n]*)?\r?\n")
DOT = re.compile(rb"^\.", re.MULTILINE)


class Lost(OSError):
    """No reply: the connection broke, stayed silent too long, or said what is none."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What the server answered, its words as one line."""

    code: int
    words: str

    @classmethod
    def of(cls, code: int, words: bytes | str) -> Reply:
        text = words.decode("utf-8", "replace") if isinstance(words, bytes) else words
        return cls(code, one_line(text)[:300])

    @property
    def is_good(self) -> bool:
        return 200 <= self.code < 300


class Session(smtplib.SMTP):
    """One connection. `step_s` is how long each reply may take until the text is under way.

    `deadline_s` is the whole call's: who holds `line` ends that, not this.
    """

    def __init__(self, line: Line, helo: str, step_s: float, deadline_s: float) -> None:
        super().__init__(local_hostname=helo or "localhost", timeout=step_s)
        self._line, self._named, self._step_s, self._deadline_s = line, bool(helo), step_s, deadline_s

    def connect_to(self, host: str, port: int) -> None:
        """Raises OSError when no connection stood."""
        connected = socket.create_connection((host, port), min(self._step_s, connect_s(self._deadline_s)))
        self._line.hold(connected, leaves=False)
        self.sock: Any = connected
        if not self._named:
            own = connected.getsockname()[0]
            self.local_hostname = f"[IPv6:{own}]" if ":" in own else f"[{own}]"

    def secure(self, tls: ssl.SSLContext, host: str) -> None:
        """TLS on the connection; what was said before is forgotten. Raises OSError."""
        self._patient()
        wrapped = tls.wrap_socket(self.sock, server_hostname=host, do_handshake_on_connect=False)
        self.sock, self.file = wrapped, None
        self._line.hold(wrapped, leaves=False)
        wrapped.do_handshake()
        self.ehlo_resp, self.esmtp_features, self.does_esmtp = None, {}, False

    def hello(self) -> Reply:
        """EHLO, or HELO for a server that knows nothing else."""
        try:
            code, words = self.ehlo()
            if not 200 <= code < 300:
                code, words = self.helo()
        except smtplib.SMTPServerDisconnected as error:
            raise Lost(str(error)) from error
        return Reply.of(code, words)

    def say(self, command: str, arguments: str = "") -> Reply:
        """One command and its reply. Raises Lost; ValueError for what cannot be a command."""
        self._patient()
        try:
            self.putcmd(command, arguments)
        except smtplib.SMTPServerDisconnected as error:
            raise Lost(str(error)) from error
        return self.read()

    def text(self, data: bytes) -> Reply:
        """The text, with dots doubled and the one that ends it; the answer may take as long as the call."""
        self.sock.settimeout(read_s(self._deadline_s))
        try:
            self.sock.sendall(DOT.sub(b"..", data) + b".\r\n")
        except OSError as error:
            raise Lost(type(error).__name__) from error
        return Reply.of(*self.getreply())

    def leave(self) -> None:
        """QUIT, whose answer nobody waits for: what was accepted stays accepted."""
        try:
            self.sock.settimeout(1.0)
            self.sock.sendall(b"QUIT\r\n")
        except (OSError, AttributeError):
            pass
        finally:
            self.close()

    def read(self) -> Reply:
        """The next reply. Raises Lost."""
        self._patient()
        return Reply.of(*self.getreply())

    def getreply(self) -> tuple[int, bytes]:
        """A whole reply, as smtplib's own methods ask for it. Raises Lost for everything that is none."""
        if self.file is None:
            self.file = self.sock.makefile("rb")
        code, words = 0, list[bytes]()
        for _ in range(LINES_MAX):
            line = self._line_of_reply()
            if code and int(line[:3]) != code:
                break
            code = int(line[:3])
            words.append(line[4:].strip())
            if line[3:4] != b"-":
                return code, b"\n".join(words)
        raise Lost("That is no reply.")

    def _line_of_reply(self) -> bytes:
        read: Any = self.file
        try:
            line: bytes = read.readline(LINE_BYTES_MAX + 1)
        except OSError as error:
            raise Lost(type(error).__name__) from error
        if not REPLY.fullmatch(line):
            raise Lost("The connection was closed." if not line else "That is no reply.")
        return line

    def _patient(self) -> None:
        self.sock.settimeout(self._step_s)
