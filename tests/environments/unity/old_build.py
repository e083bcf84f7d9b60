"""Plays a build's side of ML-Agents 0.2's protocol. $BUILD says what it does wrong, if anything."""

import json
import os
import socket
import struct
import sys
import time

FAULT = os.environ.get("BUILD", "")
AGENTS = [101, 102, 103] if FAULT != "nobody" else []
LENGTHS = {101: 3, 102: 5, 103: 4}  # of their episodes
DISCRETE = FAULT != "continuous"
BRAIN = {"stateSize": 2, "stateSpaceType": 1, "actionSize": 4, "actionSpaceType": int(not DISCRETE),
         "memorySize": 1, "cameraResolutions": [{"width": 4, "height": 4, "blackAndWhite": True}],
         "actionDescriptions": []}  # fmt: skip

time.sleep(0.1 if FAULT != "silent" else 600)
with open(os.environ["PID_FILE"], "a+") as file:
    print(os.getpid(), file=file, flush=True)
    file.seek(0)
    started = file.read().split()
is_first = int(started[0]) == os.getpid()
if FAULT == "dies twice" and len(started) == 2:
    sys.exit("no room")
unity = socket.create_connection(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])))
unity.sendall(json.dumps({
    "apiNumber": "API-3" if FAULT == "version" else "API-2", "AcademyName": "Counting",
    "logPath": "", "resetParameters": {"start": 0.0}, "brainNames": ["Counter"],
    "externalBrainNames": ["Counter"], "brainParameters": [BRAIN],
}).encode())  # fmt: skip
age, start, steps = dict.fromkeys(AGENTS, 0), 0.0, 0
MALFORMED = {
    "no text": b"\xff\xfe",
    "a list": b"[1, 2]",
    "no agents": b'{"brain_name": "Counter", "agents": null, "states": []}',
    "another brain": b'{"brain_name": "Other", "agents": []}',
}


def say(message: bytes) -> None:
    """Sends a message and waits for its confirmation."""
    unity.sendall(struct.pack("<I", len(message)) + message)
    assert unity.recv(100) == b"RECEIVED"


def show(rewards: list[float], dones: list[bool], over: bool = False) -> None:
    """Shows all agents: their number and their age."""
    states = [float(number) for agent in AGENTS for number in (agent, start + age[agent])]
    say(json.dumps({
        "brain_name": "Counter", "agents": AGENTS, "states": states, "rewards": rewards,
        "actions": [], "memories": [0.0] * 3, "dones": dones,
    }).encode())  # fmt: skip
    for _ in AGENTS:
        say(b"a picture")
    unity.sendall(str(over).encode())


while True:
    command = unity.recv(5)
    if command == b"RESET":
        unity.sendall(b"CONFIG_REQUEST")
        start = json.loads(unity.recv(10000))["parameters"].get("start", 0.0)
        age = dict.fromkeys(AGENTS, 0)
        show([0.0] * len(AGENTS), [False] * len(AGENTS))
    elif command == b"STEP":
        unity.sendall(b"STEPPING")
        actions = json.loads(unity.recv(10000))["action"]["Counter"]
        steps += 1
        if steps == 6 and is_first and FAULT in ("dies", "dies twice", "hangs"):
            sys.exit(1) if FAULT != "hangs" else time.sleep(600)
        if steps == 6 and is_first and FAULT in MALFORMED:
            say(MALFORMED[FAULT])
        if FAULT == "always dies":
            sys.exit(1)
        age = {agent: passed + 1 for agent, passed in age.items()}
        dones = [age[agent] == LENGTHS[agent] for agent in AGENTS]
        age = {agent: 0 if done else age[agent] for agent, done in zip(AGENTS, dones, strict=True)}
        width = len(actions) // len(AGENTS)
        rewards = [sum(actions[i * width : (i + 1) * width]) for i in range(3)]
        show(rewards, dones, over=FAULT == "over" and steps % 4 == 2)
    else:  # EXIT, or nobody is there
        sys.exit()
