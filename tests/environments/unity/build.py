"""Plays a build's side of the current protocol. $BUILD says what it does wrong, if anything."""

import importlib.util
import os
import runpy
import sys
import types

import grpc

# Alone: the package around it takes long to import.
found = importlib.util.find_spec("environments")
assert found and found.submodule_search_locations
(folder,) = found.submodule_search_locations
messages = types.SimpleNamespace(**runpy.run_path(f"{folder}/unity/messages.py"))
Message = messages.Message

FAULT = os.environ.get("BUILD", "")
LENGTHS = [3, 5]  # of episodes
port = sys.argv[sys.argv.index("--mlagents-port") + 1]
channel = grpc.insecure_channel(f"127.0.0.1:{port}")
call = channel.unary_unary(
    f"/{messages.SERVICE}/{messages.METHOD}", Message.SerializeToString, Message.FromString
)


def exchange(message):
    """Makes a call; ends this program where the answer says so."""
    message.header.status = 200
    answer = call(message)
    if answer.header.status != 200:
        sys.exit()
    return answer.unity_input


hello = Message()
told = hello.unity_output.rl_initialization_output
told.communication_version = "0.9.0" if FAULT == "version" else "1.5.0"
answer = exchange(hello).rl_initialization_input
assert answer.communication_version.startswith("1."), answer
command = exchange(Message()).rl_input
assert len(command.side_channel) % 4 == 0 and command.side_channel
with open(os.environ["PID_FILE"], "a+") as file:
    print(os.getpid(), file=file, flush=True)
    file.seek(0)
    is_first = int(file.readline()) == os.getpid()
first_id, ages, seen, is_described, steps = 7, [0, 0], 0.0, False, 0
ids = [7, 8]
while True:
    message = Message()
    output = message.unity_output
    if not is_described:
        brain = output.rl_initialization_output.brain_parameters.add(brain_name="Walker?team=0")
        brain.action_spec.num_continuous_actions = 0 if FAULT == "branches" else 2
        brain.action_spec.discrete_branch_sizes.extend([3, 2] if FAULT == "branches" else [])
        brain.action_spec.num_discrete_actions = len(brain.action_spec.discrete_branch_sizes)
        is_described = True
    infos = output.rl_output.agent_infos.add(key="Walker?team=0").value.value
    acts = {entry.key: entry.value.value for entry in command.agent_actions}.get(
        "Walker?team=0", []
    )
    if command.command == messages.RESET:
        ages, ids = [0, 0], [ids[0] + 2, ids[1] + 2]
        ended, rewards = [False, False], [0.0, 0.0]
    else:
        rewards = [sum([*act.continuous_actions, *act.discrete_actions]) for act in acts]
        ages = [age + 1 for age in ages]
        ended = [age == length for age, length in zip(ages, LENGTHS, strict=True)]
        steps += 1
        if steps == 6 and is_first and FAULT == "dies":
            os._exit(1)
    for agent in range(2):
        if ended[agent]:
            info = infos.add(id=ids[agent], reward=rewards[agent], done=True)
            info.max_step_reached = agent == 1
            info.observations.add(shape=[2]).float_data.data.extend([ids[agent], ages[agent]])
            ids[agent], ages[agent], rewards[agent] = max(ids) + 1, 0, 0.0
        info = infos.add(id=ids[agent], reward=rewards[agent])
        info.observations.add(shape=[2]).float_data.data.extend([ids[agent], ages[agent]])
    command = exchange(message).rl_input
