"""The protocol of ML-Agents 1.0 and later: gRPC, in which the build calls and we answer.

A build's first call describes it, its second one asks for a command; from then on each call shows
agents, and the answer has the actions of those that are to decide.
"""

import queue
import struct
import subprocess
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import grpc
import numpy as np

from environments.unity import messages
from environments.unity.behaviour import Behaviour, Shown, Unusable, chosen
from environments.unity.messages import Action, Message

VERSION = "1.5.0"  # builds with the same first number understand it
ENGINE = uuid.UUID("e951342c-4f7e-11ea-b238-784f4387d1f7")
PARAMETERS = uuid.UUID("534c891e-810f-11ea-a9d0-822485860400")
TIME_SCALE, FRAME_RATE, CAPTURE_RATE = 2, 3, 4  # settings of the engine
# As fast as it can, in steps of the game's time that do not depend on how fast that is.
FASTER, UNLIMITED, CAPTURED = 20.0, -1, 60
MOST_BYTES = 1 << 28
STEPS_UNTIL_ASKED = 100
LOOKS_EVERY_S = 0.1


class Server:
    """Listens on loopback for one build."""

    build: subprocess.Popen | None = None  # once it is started, so that its end is noticed

    def __init__(self, called: Callable[[], None]) -> None:
        """`called` is called when a build calls for the first time."""
        self._called = called
        self._from_build: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._to_build: queue.SimpleQueue[Any] = queue.SimpleQueue()
        handler = grpc.unary_unary_rpc_method_handler(
            self._exchange, Message.FromString, Message.SerializeToString
        )
        service = grpc.method_handlers_generic_handler(messages.SERVICE, {messages.METHOD: handler})
        limits = [(f"grpc.max_{way}_message_length", MOST_BYTES) for way in ("receive", "send")]
        self._server = grpc.server(ThreadPoolExecutor(1), options=limits)
        self._server.add_generic_rpc_handlers((service,))
        self.port = self._server.add_insecure_port("127.0.0.1:0")
        self._server.start()

    def _exchange(self, request: Any, _: Any) -> Any:
        self._from_build.put(request)
        called, self._called = self._called, lambda: None
        called()
        return self._to_build.get()

    def read(self) -> Any:
        """What the build says next."""
        message = self._next()
        if message.header.status != messages.GOES_ON:
            raise ConnectionError("it has stopped by itself")
        return message.unity_output

    def _next(self) -> Any:
        while True:
            with suppress(queue.Empty):
                return self._from_build.get(timeout=LOOKS_EVERY_S)
            if self.build and self.build.poll() is not None:
                raise ConnectionError("it has stopped by itself")

    def answer(self, message: Any, status: int = messages.GOES_ON) -> None:
        """Answers the build's call."""
        message.header.status = status
        self._to_build.put(message)

    def close(self) -> None:
        """Asks the build to end, if it listens."""
        self.answer(Message(), messages.ENDS)
        self._server.stop(grace=1.0).wait()


class GrpcApi:
    """A conversation with a build that has just called."""

    def __init__(self, server: Server, seed: int) -> None:
        self._server = server
        told = server.read().rl_initialization_output
        if told.communication_version.partition(".")[0] != VERSION.partition(".")[0]:
            raise Unusable(
                f"speaks version {told.communication_version or 'unknown'} of ML-Agents' protocol; "
                "expected 1"
            )
        greeting = Message()
        hello = greeting.unity_input.rl_initialization_input
        hello.seed, hello.communication_version, hello.num_areas = seed, VERSION, 1
        hello.package_version = "1.0.0"
        hello.capabilities.base = True
        hello.capabilities.variable_length = True
        hello.capabilities.groups = True
        server.answer(greeting)
        server.read()
        self._brains: dict[str, Any] = {}
        self._played: set[str] = set()
        self._behaviour: Behaviour | None = None
        self._asked: dict[str, list[int]] = {}
        self._side = b""

    def begin(self, behaviour: str, parameters: Mapping[str, float]) -> tuple[Behaviour, Shown]:
        self._side = _engine() + b"".join(_parameter(*one) for one in parameters.items())
        output = self._command(messages.RESET, {})
        for _ in range(STEPS_UNTIL_ASKED):
            if any(self._asked.values()):
                break
            output = self._command(messages.STEP, {})
        played = chosen(self._behaviours(output), behaviour)
        self._played, self._behaviour = {one.name for one in played}, played[0]
        return played[0], self._shown(output, begins=True)

    def reset(self) -> Shown:
        return self._shown(self._command(messages.RESET, {}), begins=True)

    def step(self, actions: Mapping[int, np.ndarray]) -> Shown:
        return self._shown(self._command(messages.STEP, actions), begins=False)

    def close(self) -> None:
        self._server.close()

    def _command(self, command: int, actions: Mapping[int, np.ndarray]) -> Any:
        """Answers with a command; returns what the build shows then."""
        message = Message()
        said = message.unity_input.rl_input
        said.command, said.side_channel, self._side = command, self._side, b""
        if command == messages.STEP:
            for brain, agents in self._asked.items():
                if agents:
                    list_of_brain = said.agent_actions.add(key=brain).value
                    list_of_brain.value.extend(
                        self._action(brain, actions.get(one)) for one in agents
                    )
        self._server.answer(message)
        output = self._server.read()
        for brain in output.rl_initialization_output.brain_parameters:
            self._brains[brain.brain_name] = brain
        self._asked = {
            entry.key: [info.id for info in entry.value.value if not info.done]
            for entry in output.rl_output.agent_infos
        }
        return output

    def _action(self, brain: str, chosen: np.ndarray | None) -> Any:
        continuous, branches = _actions(self._brains[brain])
        if continuous and not branches:
            numbers = np.zeros(continuous) if chosen is None else np.ravel(chosen)
            return Action(continuous_actions=numbers, old_actions=numbers)
        # Agents that are not played may take both.
        counts = np.zeros(len(branches), int) if chosen is None else np.ravel(chosen)
        return Action(
            continuous_actions=[0.0] * continuous, discrete_actions=counts, old_actions=counts
        )

    def _shown(self, output: Any, begins: bool) -> Shown:
        assert self._behaviour
        infos = [
            info
            for entry in output.rl_output.agent_infos
            if entry.key in self._played
            for info in entry.value.value
        ]
        asked = [info for info in infos if not info.done]
        ended = [] if begins else [info for info in infos if info.done]
        return Shown(
            asked=[info.id for info in asked],
            observation=self._numbers(asked),
            reward=np.array([info.reward + info.group_reward for info in asked], np.float32),
            ended=[info.id for info in ended],
            last=self._numbers(ended),
            last_reward=[info.reward + info.group_reward for info in ended],
            terminated=[not info.max_step_reached for info in ended],
        )

    def _numbers(self, infos: list[Any]) -> np.ndarray:
        assert self._behaviour
        rows = np.zeros([len(infos), self._behaviour.numbers], np.float32)
        for row, info in zip(rows, infos, strict=True):
            row[:] = np.concatenate(
                [one.float_data.data for one in info.observations if not _is_picture(one)]
            )
        return rows

    def _behaviours(self, output: Any) -> list[Behaviour]:
        """Of the agents that are asked; a build says only in their messages what they see."""
        found = []
        for entry in output.rl_output.agent_infos:
            asked = [info for info in entry.value.value if not info.done]
            if not asked:
                continue
            seen = asked[0].observations
            pictures = sum(map(_is_picture, seen))
            numbers = sum(int(np.prod(one.shape)) for one in seen if not _is_picture(one))
            found.append(
                Behaviour(entry.key, numbers, *_actions(self._brains[entry.key]), pictures)
            )
        return found


def _is_picture(observation: Any) -> bool:
    return len(observation.shape) == 3


def _actions(brain: Any) -> tuple[int, tuple[int, ...]]:
    """How many axes, and how many choices for each discrete action."""
    told = brain.action_spec
    if told.num_continuous_actions or told.num_discrete_actions:
        return told.num_continuous_actions, tuple(told.discrete_branch_sizes)
    # Before version 1.3 of the protocol.
    sizes = tuple(brain.old_action_sizes)
    return (sizes[0], ()) if brain.old_action_type == 1 else (0, sizes)


def _engine() -> bytes:
    told = (
        struct.pack("<if", TIME_SCALE, FASTER),
        struct.pack("<ii", FRAME_RATE, UNLIMITED),
        struct.pack("<ii", CAPTURE_RATE, CAPTURED),
    )
    return b"".join(_side_message(ENGINE, one) for one in told)


def _parameter(name: str, value: float) -> bytes:
    """A parameter of the build's, as ML-Agents' trainers set it."""
    number = 0  # the kind of value
    text = name.encode("ascii")
    packed = struct.pack("<i", len(text)) + text + struct.pack("<if", number, value)
    return _side_message(PARAMETERS, packed)


def _side_message(channel: uuid.UUID, message: bytes) -> bytes:
    return channel.bytes_le + struct.pack("<i", len(message)) + message
