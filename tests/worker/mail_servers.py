"""Mail servers on this machine that break the rules, and certificates that nobody signed."""

from __future__ import annotations

import contextlib
import datetime as dt
import ipaddress
import socket
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

Script = Callable[[socket.socket], None]
EHLO = b"250-odd.example\r\n250-SIZE 10000000\r\n250 HELP\r\n"
USUAL: dict[str, bytes | Script] = {
    "greeting": b"220 odd.example\r\n",
    "EHLO": EHLO,
    "MAIL": b"250 OK\r\n",
    "RCPT": b"250 OK\r\n",
    "DATA": b"354 Go on\r\n",
    "dot": b"250 OK\r\n",
    "QUIT": b"221 Bye\r\n",
}


class OddServer:
    """Answers each step as it is told: bytes, or a script that does what it likes with the connection."""

    def __init__(self, **steps: bytes | Script) -> None:
        self.steps: Mapping[str, bytes | Script] = USUAL | steps
        self.said: list[str] = []
        self.texts: list[bytes] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"smtp://127.0.0.1:{self._listener.getsockname()[1]}"
        self._threads = [threading.Thread(target=self._accept, daemon=True)]

    def __enter__(self) -> OddServer:
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(40)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                thread = threading.Thread(target=self._serve, args=(self._listener.accept()[0],), daemon=True)
                self._threads.append(thread)
                thread.start()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection, connection.makefile("rb") as reader:
            self._answer(connection, "greeting")
            while line := reader.readline():
                self.said.append(line.decode().strip())
                command = line[:4].decode().upper().strip()
                self._answer(connection, command)
                if command == "DATA" and self.steps["DATA"] == USUAL["DATA"]:
                    self.texts.append(_text(reader))
                    self._answer(connection, "dot")

    def _answer(self, connection: socket.socket, step: str) -> None:
        answer = self.steps.get(step, b"250 OK\r\n")
        if isinstance(answer, bytes):
            connection.sendall(answer)
        else:
            answer(connection)


def _text(reader: object) -> bytes:
    """What came before the final dot, as it came."""
    lines = []
    while (line := reader.readline()) not in (b".\r\n", b""):  # type: ignore[attr-defined]
        lines.append(line)
    return b"".join(lines)


def certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate for this machine's own address that nobody but itself vouches for, and its key."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([])
    now = dt.datetime.now(dt.UTC)
    own = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(own, critical=True)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    chain, secret = folder / "cert.pem", folder / "key.pem"
    chain.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    plain = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    secret.write_bytes(key.private_bytes(*plain))
    return chain, secret
