"""The rewarder: tells clients of a game's rewards and episodes, over a WebSocket.

Its clients prove first that they know the desktop's password.
"""

import asyncio
import contextlib
import hmac
import queue
import secrets
import threading
from collections.abc import Callable
from typing import Any

from websockets.asyncio.server import Server, ServerConnection, broadcast, serve
from websockets.exceptions import ConnectionClosed

from environments.realtime import messages, password
from environments.realtime.messages import Message

PROVES_WITHIN_S, CLOSES_WITHIN_S = 5.0, 1.0
LARGEST_MESSAGE = 1 << 16
MOST_UNREAD = 1 << 20  # bytes


class Rewarder:
    """Listens in a thread of its own."""

    def __init__(self, host: str, port: int, secret: str, describe: Callable[[], Message]) -> None:
        """``describe`` makes the first message for each client, in the rewarder's thread."""
        self._secret = secret
        self._describe = describe
        self._clients: set[ServerConnection] = set()
        self._server: Server | None = None
        self._unwanted: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._loop = asyncio.new_event_loop()
        self._ready: asyncio.Future[int] = self._loop.create_future()
        self._thread = threading.Thread(
            target=self._run, args=(host, port), name="rewarder", daemon=True
        )
        self._thread.start()
        self.port = asyncio.run_coroutine_threadsafe(self._await_ready(), self._loop).result()

    def tell(self, message: Message) -> None:
        """Sends a message to every client."""
        self._loop.call_soon_threadsafe(self._tell, message)

    def reset_is_wanted(self, episode: str) -> bool:
        """Whether a client has asked for the end of this episode since the last call."""
        with contextlib.suppress(queue.Empty):
            while True:
                # A client that has not heard of the newest episode does not mean that one.
                if self._unwanted.get_nowait() in (episode, ""):
                    return True
        return False

    def close(self) -> None:
        """Stops to listen."""
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        if self._server:
            self._server.close()
            closed = asyncio.create_task(self._server.wait_closed())
            await asyncio.wait([closed], timeout=2 * CLOSES_WITHIN_S)
            # A client that has never said anything may be waited for still.
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()
            await asyncio.sleep(0)

    async def _await_ready(self) -> int:
        return await self._ready

    def _run(self, host: str, port: int) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._listen(host, port))
            self._loop.run_forever()
        except OSError as error:
            self._ready.set_exception(error)
            self._loop.run_forever()

    async def _listen(self, host: str, port: int) -> None:
        self._server = await serve(
            self._serve,
            host,
            port,
            max_size=LARGEST_MESSAGE,
            compression=None,
            ping_interval=None,
            close_timeout=CLOSES_WITHIN_S,  # a client that is stopped does not say goodbye
        )
        self._ready.set_result(next(iter(self._server.sockets)).getsockname()[1])

    def _tell(self, message: Message) -> None:
        for client in [*self._clients]:
            if client.transport.get_write_buffer_size() > MOST_UNREAD:  # one that was stopped
                self._clients.discard(client)
                client.transport.abort()  # it connects again once it goes on
        broadcast(self._clients, message.encoded())

    async def _serve(self, client: ServerConnection) -> None:
        with contextlib.suppress(ConnectionClosed, ValueError, TimeoutError):
            if not await self._knows_password(client):
                return
            # Before it is described: it must hear of everything that is newer.
            self._clients.add(client)
            try:
                await client.send(self._describe().encoded())
                async for text in client:
                    await self._answer(client, messages.decoded(text))
            finally:
                self._clients.discard(client)

    async def _knows_password(self, client: ServerConnection) -> bool:
        challenge = secrets.token_hex(16)
        await client.send(Message(messages.CHALLENGE, {"challenge": challenge}).encoded())
        async with asyncio.timeout(PROVES_WITHIN_S):
            given = messages.decoded(await client.recv())
        wanted = password.proof(self._secret, challenge)
        # Of texts, it takes ASCII only.
        right = hmac.compare_digest(str(given.body.get("proof", "")).encode(), wanted.encode())
        reply: dict[str, Any] = {} if right else {"error": "wrong password"}
        await client.send(Message(messages.REPLY_PROOF, reply, parent=given.number).encoded())
        return right

    async def _answer(self, client: ServerConnection, asked: Message) -> None:
        if asked.method == messages.PING:
            await client.send(Message(messages.REPLY_PING, parent=asked.number).encoded())
        elif asked.method == messages.RESET:
            self._unwanted.put(asked.episode)
            await client.send(Message(messages.REPLY_RESET, parent=asked.number).encoded())
