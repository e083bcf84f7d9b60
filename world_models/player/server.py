"""Serves the page on this machine only; its address holds a token that others do not know."""

import base64
import contextlib
import json
import secrets
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from user_error import UserError
from world_models.player import keys
from world_models.player.page import page
from world_models.player.session import Session
from world_models.training import pictures

HOST = "127.0.0.1"
WAIT_S = 2.0  # for a new picture
MOST_BYTES = 1000  # of a message


class _Handler(BaseHTTPRequestHandler):
    server: "_Server"

    def do_GET(self) -> None:
        """The page, or the newest picture as JSON."""
        address = urlsplit(self.path)
        if not self._allowed():
            self._answer(404, "text/plain", b"not here")
        elif address.path == f"/{self.server.token}/":
            columns = ["model", "real", "difference"] if self.server.session.model else ["real"]
            self._answer(200, "text/html; charset=utf-8", page(columns, keys.HELP).encode())
        elif address.path == f"/{self.server.token}/shown":
            self._answer(200, "application/json", self._shown(address.query))
        else:
            self._answer(404, "text/plain", b"not here")

    def do_POST(self) -> None:
        """A key that went down or up."""
        length = self.headers.get("Content-Length", "")
        right = self._allowed() and urlsplit(self.path).path == f"/{self.server.token}/key"
        if not right or not length.isdigit() or int(length) > MOST_BYTES:
            self._answer(404, "text/plain", b"not here")
            return
        try:
            message = json.loads(self.rfile.read(int(length)))
            key, down = str(message["key"]), bool(message["down"])
        except (ValueError, KeyError, TypeError):
            self._answer(400, "text/plain", b"expected a key")
            return
        session = self.server.session
        try:
            self.server.keys.submit(session.press if down else session.release, key).result()
        except Exception as error:  # this thread would only print it, and the game go on
            session.fail(error)
        self._answer(200, "text/plain", b"")

    def _shown(self, query: str) -> bytes:
        after = parse_qs(query).get("after", ["0"])[0]
        number, picture, header = self.server.session.shown(
            int(after) if after.isdigit() else 0, WAIT_S
        )
        content = base64.b64encode(pictures.png(picture)).decode()
        return json.dumps({"number": number, "png": content} | header).encode()

    def _allowed(self) -> bool:
        """Whether the browser was sent here by this address, and not by another site's name."""
        return self.headers.get("Host", "").rpartition(":")[0] in (HOST, "localhost")

    def _answer(self, status: int, kind: str, content: bytes) -> None:
        with contextlib.suppress(ConnectionError):  # the page was closed
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.send_header("Cache-Control", "no-store")
            self.send_header("Referrer-Policy", "no-referrer")
            self.end_headers()
            self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Nothing: addresses hold the token."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, session: Session, port: int):
        self.session = session
        self.token = secrets.token_urlsafe(16)
        # A page that a key starts anew has a browser, which ends with the thread that started it;
        # that of a request does not last.
        self.keys = ThreadPoolExecutor(1, "keys")
        super().__init__((HOST, port), _Handler)


@contextlib.contextmanager
def served(session: Session, port: int) -> Iterator[str]:
    """The page's address while it is served; port 0: a free one."""
    try:
        server = _Server(session, port)
    except OSError as error:
        raise UserError(
            f"--port={port} cannot be used ({error.strerror}). Choose another; 0 takes a free one."
        ) from None
    thread = threading.Thread(target=server.serve_forever, name="player's page", daemon=True)
    thread.start()
    try:
        yield f"http://{HOST}:{server.server_address[1]}/{server.token}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
