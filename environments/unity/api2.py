"""The protocol of ML-Agents 0.2, "API-2": JSON over a socket. The build connects to us.

The build's first message describes it. Then each RESET or STEP is answered with one message a
brain, each of which we confirm, and the word True or False: whether the whole world's episode is
over. An agent whose episode has ended shows the next one's start in the same message. Why it has
ended, a time limit or not, is not said, so that all ends count as terminations.
"""

import json
import socket
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from environments.unity.behaviour import Behaviour, Shown, Unusable, chosen

VERSION = "API-2"
CONFIRMED, CONFIG, STEPPING = b"RECEIVED", b"CONFIG_REQUEST", b"STEPPING"
HTTP2 = b"PRI * HTTP/2.0"  # how gRPC begins
# Of the build's description; what is longer is something else.
MOST_BYTES = 1 << 22


class Api2:
    """A conversation with an old build, which has just connected."""

    def __init__(self, connection: socket.socket, actions: int) -> None:
        """`actions` that are counted, where the build counts them wrongly."""
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connection, self._actions = connection, actions
        self._described = self._description()
        self._played: dict[str, Behaviour] = {}
        self._agents: dict[str, list[int]] = {}  # of each brain, as it has listed them last
        self._parameters: Mapping[str, float] = {}

    def begin(self, behaviour: str, parameters: Mapping[str, float]) -> tuple[Behaviour, Shown]:
        known = self._described["resetParameters"]
        for name in parameters:
            if name not in known:
                names = ", ".join(known) or "none"
                raise Unusable(f"has no parameter {name}; its parameters: {names}")
        self._parameters = parameters
        played = chosen([self._behaviour(name) for name in self._external()], behaviour)
        self._played = {one.name: one for one in played}
        return played[0], self.reset()

    def reset(self) -> Shown:
        self._connection.sendall(b"RESET")
        self._expect(CONFIG)
        # The key is spelt like this there.
        self._send({"train_model": True, "parameters": dict(self._parameters)})
        return self._shown(begins=True)

    def step(self, actions: Mapping[int, np.ndarray]) -> Shown:
        self._connection.sendall(b"STEP")
        self._expect(STEPPING)
        acts: dict[str, list[float]] = {}
        memories, values = {}, {}
        for brain in self._external():
            described = self._brain(brain)
            width = described["actionSize"] if described["actionSpaceType"] else 1
            nothing, agents = np.zeros(width), self._agents.get(brain, [])
            rows = [np.ravel(actions.get(agent, nothing)).tolist() for agent in agents]
            acts[brain] = [float(number) for row in rows for number in row]
            memories[brain] = [0.0] * (described["memorySize"] * len(agents))
            values[brain] = [0.0] * len(agents)
        self._send({"action": acts, "memory": memories, "value": values})
        return self._shown(begins=False)

    def close(self) -> None:
        self._connection.sendall(b"EXIT")
        self._connection.close()

    def _shown(self, begins: bool) -> Shown:
        """What all brains say; the ends of episodes of before a reset are not counted."""
        parts = []
        for _ in self._described["brainNames"]:
            state = json.loads(self._message())
            brain = state["brain_name"]
            for _ in range(len(self._brain(brain)["cameraResolutions"]) * len(state["agents"])):
                self._message()  # a picture
            known = () if begins else self._agents.get(brain, ())
            gone = [agent for agent in known if agent not in state["agents"]]
            self._agents[brain] = state["agents"]
            if brain in self._played:
                parts.append((state, gone, self._numbers(self._played[brain], state)))
        over = self._exactly(4)
        if over != b"True":
            over += self._exactly(1)
        if over not in (b"True", b"False"):
            raise ConnectionError(f"it has sent {over!r}")
        agents = [agent for state, _, _ in parts for agent in state["agents"]]
        rewards = [reward for state, _, _ in parts for reward in state["rewards"]]
        dones = [done and not begins for state, _, _ in parts for done in state["dones"]]
        ends = [
            (agent, reward, True)
            for agent, reward, done in zip(agents, rewards, dones, strict=True)
            if done
        ]
        ends += [(agent, 0.0, False) for _, gone, _ in parts for agent in gone]
        return Shown(
            asked=agents,
            observation=np.concatenate([numbers for *_, numbers in parts]),
            reward=np.where(dones, 0, np.array(rewards, np.float32)),
            ended=[agent for agent, _, _ in ends],
            last_reward=[reward for _, reward, _ in ends],
            terminated=[terminated for *_, terminated in ends],
            over=over == b"True",
        )

    @staticmethod
    def _numbers(behaviour: Behaviour, state: dict[str, Any]) -> np.ndarray:
        count = len(state["agents"])
        given = np.array(state["states"], np.float32)
        if given.size == count * behaviour.numbers:
            return given.reshape(count, behaviour.numbers)
        # A state that is counted: a one among zeros.
        return np.eye(behaviour.numbers, dtype=np.float32)[given.astype(int)]

    def _behaviour(self, brain: str) -> Behaviour:
        told = self._brain(brain)
        size, continuous = told["actionSize"], told["actionSpaceType"] == 1
        return Behaviour(
            name=brain,
            numbers=told["stateSize"],
            continuous=size if continuous else 0,
            branches=() if continuous else (self._actions or size,),
            pictures=len(told["cameraResolutions"]),
        )

    def _brain(self, name: str) -> dict[str, Any]:
        return self._described["brainParameters"][self._described["brainNames"].index(name)]

    def _external(self) -> Sequence[str]:
        """The brains that others than the build decide for."""
        return self._described["externalBrainNames"] or []

    def _description(self) -> dict[str, Any]:
        text = b""
        while True:
            data = self._connection.recv(1 << 16)
            text += data
            if text.startswith(HTTP2):
                raise Unusable(
                    "speaks that of ML-Agents 0.4 to 0.13; expected 0.2, or 1.0 and later"
                )
            if not data or len(text) > MOST_BYTES:
                raise ConnectionError("it has not described itself")
            try:
                told = json.loads(text)
            except ValueError:
                continue  # the rest is on its way
            version = told.get("apiNumber", "API-1")
            if version != VERSION:
                raise Unusable(
                    f"speaks {version}; expected {VERSION} (ML-Agents 0.2), or gRPC (1.0 and later)"
                )
            return told

    def _send(self, message: dict[str, Any]) -> None:
        self._connection.sendall(json.dumps(message).encode())

    def _expect(self, word: bytes) -> None:
        if (said := self._exactly(len(word))) != word:
            raise ConnectionError(f"it has sent {said!r}, expected {word!r}")

    def _message(self) -> bytes:
        (length,) = struct.unpack("<I", self._exactly(4))
        message = self._exactly(length)
        self._connection.sendall(CONFIRMED)
        return message

    def _exactly(self, count: int) -> bytes:
        parts = bytearray()
        while len(parts) < count:
            data = self._connection.recv(count - len(parts))
            if not data:
                raise ConnectionError("it has closed its connection")
            parts += data
        return bytes(parts)
