"""Distributed TensorFlow as the carrier: queues and variables on the learner's server.

An actor is a plain session on that server: a learner need not know its actors beforehand, and
any number of them may come and go. This is the only module that uses ``tf.compat.v1``.
"""

import contextlib
import queue
import socket
import threading
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from transport.in_process import Closed
from transport.messages import FINISHED, Lasting, Lost, Silent
from user_error import UserError

v1 = tf.compat.v1

DEVICE = "/job:learner/task:0/device:CPU:0"
# How many letters from actors may wait to be read.
LETTERS = 256
# Lines of TensorFlow's around what an error of a session says.
HEADINGS = ("Graph execution error:", "From /job:", "Detected at node")
# TensorFlow draws a number for each call, often as the first of a new thread's generator, whose
# seed has 32 bits. A server refuses a call whose number is among its last 100,000, before it does
# anything: by calculation the first after 80,000 calls, later one in 43,000.
REPEATED = "request was received twice"


class _Graph(NamedTuple):
    """The operations on the server's queues and variables; both ends build the same."""

    graph: Any
    header: Any
    block: Any
    put: Any
    receive: Any
    letter: Any
    write: Any
    hear: Any
    about: Any
    read_about: Any
    set_about: Any
    weights: Any
    version: Any
    read_weights: Any
    set_weights: Any
    set_version: Any
    close: Any


class Server:
    """The learner's end."""

    def __init__(self, host: str, port: int):
        self._graph = _build()
        self._server = _listen(host, port)
        self._session = v1.Session(self._server.target, graph=self._graph.graph)
        # Placeholders, so that nothing is read that was never written.
        try:
            self.announce(b"{}")
            self.publish(np.zeros([0], np.uint8), 0)
        except (Closed, Lost, Silent) as error:
            why = f"cannot listen there ({str(error) or 'no answer'})"
            raise UserError(f"--learner_host={host}:{port}: {why}.") from error
        # A dequeue that is given up when its time is over can lose a letter that comes just then,
        # or fail: so a thread waits for letters without an end.
        self._letters: queue.SimpleQueue[bytes | Exception] = queue.SimpleQueue()
        threading.Thread(target=self._read_letters, name="letters", daemon=True).start()

    def announce(self, about: bytes) -> None:
        """Sets what the learner answers to a new actor."""
        self._run(self._graph.set_about, {self._graph.about: np.frombuffer(about, np.uint8)})

    def publish(self, weights: np.ndarray, version: int) -> None:
        """Offers packed weights; ``FINISHED`` as their version makes actors leave."""
        if version != FINISHED:
            stamped = np.concatenate([np.array([version], np.int64).view(np.uint8), weights])
            self._run(self._graph.set_weights, {self._graph.weights: stamped})
        self._run(self._graph.set_version, {self._graph.version: version})

    def receive(self) -> tuple[np.ndarray, np.ndarray]:
        """The next block with its header; waits for it."""
        return self._run(self._graph.receive)

    def hear(self, timeout_s: float) -> bytes | None:
        """The next letter; None when none came in time."""
        try:
            letter = self._letters.get(timeout=timeout_s)
        except queue.Empty:
            return None
        if not isinstance(letter, bytes):
            self._letters.put(letter)  # for the next call
            raise letter
        return letter

    def close(self) -> None:
        """Closes the queues: all calls that wait on them raise ``Closed``."""
        self._run(self._graph.close)

    def _read_letters(self) -> None:
        while True:
            try:
                self._letters.put(self._run(self._graph.hear).tobytes())
            except Exception as over:  # raised by ``hear``
                self._letters.put(over)
                return

    def _run(self, what: Any, feed: dict | None = None) -> Any:
        return _run(self._session, what, feed)


class Connection:
    """An actor's end; once the learner is gone, every call raises ``Lost``."""

    def __init__(self, host: str, port: int, timeout_s: float):
        self._timeout_s = timeout_s
        try:
            # A session would wait silently for a learner that is not there.
            socket.create_connection((host.strip("[]"), port), timeout_s).close()
        except OSError as error:
            raise Lost(str(error.strerror or error)) from None
        self._graph = _build()
        limit = v1.ConfigProto(operation_timeout_in_ms=int(timeout_s * 1000))
        self._session = v1.Session(f"grpc://{host}:{port}", graph=self._graph.graph, config=limit)

    def about(self) -> bytes:
        """What the learner announced about itself."""
        try:
            return self._run(self._graph.read_about).tobytes()
        except Silent:
            raise Lasting(
                "no answer: is it a learner with --transport=tensorflow, and is it running?"
            ) from None

    def write(self, letter: bytes) -> int:
        """Sends a letter to the learner; returns the version of its weights."""
        graph = self._graph
        return int(self._run(graph.write, {graph.letter: np.frombuffer(letter, np.uint8)}))

    def put(self, header: np.ndarray, block: np.ndarray) -> int:
        """Adds a block; ``Silent`` when there was no room in time. Returns the weights' version."""
        graph = self._graph
        return int(self._run(graph.put, {graph.header: header, graph.block: block}))

    def weights(self, limit_s: float) -> tuple[np.ndarray, int]:
        """The newest weights and their version; ``Silent`` when they took longer."""
        stamped = _run(self._session, self._graph.read_weights, None, limit_s)
        return stamped[8:], int(stamped[:8].view(np.int64)[0])

    def close(self) -> None:
        """Lets the learner forget this session."""
        with contextlib.suppress(tf.errors.OpError):
            self._session.close()

    def _run(self, what: Any, feed: dict | None = None) -> Any:
        return _run(self._session, what, feed, self._timeout_s)


def _build() -> _Graph:
    graph = tf.Graph()
    with graph.as_default(), graph.device(DEVICE):
        # Room for one block: waiting blocks are in the learner's own queue, counted by unrolls.
        blocks = v1.FIFOQueue(1, [tf.uint8, tf.uint8], shared_name="blocks")
        letters = v1.FIFOQueue(LETTERS, [tf.uint8], shared_name="letters")
        header, block, letter, about, weights = (v1.placeholder(tf.uint8, [None]) for _ in range(5))
        version = v1.placeholder(tf.int64, [])
        variables = [
            tf.raw_ops.VarHandleOp(dtype=kind, shape=None, shared_name=name)
            for kind, name in ((tf.uint8, "about"), (tf.uint8, "weights"), (tf.int64, "version"))
        ]
        read = [
            tf.raw_ops.ReadVariableOp(resource=variable, dtype=kind)
            for variable, kind in zip(variables, (tf.uint8, tf.uint8, tf.int64), strict=True)
        ]
        assign = [
            tf.raw_ops.AssignVariableOp(resource=variable, value=value)
            for variable, value in zip(variables, (about, weights, version), strict=True)
        ]

        def then_version(operation: Any) -> Any:
            with tf.control_dependencies([operation]):
                return tf.raw_ops.ReadVariableOp(resource=variables[2], dtype=tf.int64)

        return _Graph(
            graph=graph,
            header=header,
            block=block,
            put=then_version(blocks.enqueue([header, block])),
            receive=blocks.dequeue(),
            letter=letter,
            write=then_version(letters.enqueue(letter)),
            hear=letters.dequeue(),
            about=about,
            read_about=read[0],
            set_about=assign[0],
            weights=weights,
            version=version,
            read_weights=read[1],
            set_weights=assign[1],
            set_version=assign[2],
            close=tf.group(
                blocks.close(cancel_pending_enqueues=True),
                letters.close(cancel_pending_enqueues=True),
            ),
        )


def _listen(host: str, port: int) -> Any:
    # TensorFlow's server would share a port that another process listens on.
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError as error:
            raise UserError(
                f"--learner_host={host}:{port}: cannot listen there ({error.strerror})."
            ) from None
    # No GPU for the server: it would take memory there that the learner needs.
    config = v1.ConfigProto(device_count={"GPU": 0})
    cluster = {"learner": [f"{host}:{port}"]}
    try:
        return tf.distribute.Server(cluster, job_name="learner", task_index=0, config=config)
    except tf.errors.OpError as error:
        reason = error.message.split("\n")[0]
        raise UserError(f"--learner_host={host}:{port}: cannot listen there ({reason}).") from None


def _run(session: Any, what: Any, feed: dict | None, timeout_s: float = 0.0) -> Any:
    options = v1.RunOptions(timeout_in_ms=int(timeout_s * 1000))
    try:
        while True:
            try:
                return session.run(what, feed, options=options)
            except tf.errors.AbortedError as error:
                if REPEATED not in str(error):
                    raise
    except tf.errors.DeadlineExceededError:
        raise Silent from None
    except (tf.errors.CancelledError, tf.errors.OutOfRangeError):
        raise Closed from None
    except (tf.errors.OpError, RuntimeError) as error:  # RuntimeError: the session was closed
        raise Lost(_reason(error)) from error


def _reason(error: Exception) -> str:
    """What a session's error says, without where in the program its operation was made."""
    lines = str(error).split("\n")
    after = max((i + 1 for i, line in enumerate(lines) if line.startswith("Node: ")), default=0)
    words = [line for line in lines[after:] if line.strip() and not line.startswith(HEADINGS)]
    return words[0] if words else type(error).__name__
