"""The settings of what is played, by how many, and by which network."""

import dataclasses

from flags import setting
from user_error import UserError

MOST_PROCESSES = 1024
MOST_ENVS = 4096  # of an actor, whose streams are numbered by it
DEVICES = ("cpu", "gpu")
TELL_BODIES = ("auto", "mark", "mirror", "none")
PRODUCTS = ("outer", "inner", "custom")
SEPARATE = ("auto", "on", "off")
ACTIVATIONS = ("auto", "tanh", "relu")
PRECISIONS = ("auto", "float32", "bfloat16")
# Those of agents/, which loads TensorFlow.
AGENTS = (
    *("SimpleConvNetAgent", "ResNetAgent", "ResNetLSTMAgent", "StarterLSTMAgent"),
    *("VectorAgent", "VectorLSTMAgent"),
)


@dataclasses.dataclass(frozen=True)
class LevelSettings:
    """What is played."""

    level_name: str = setting(
        "PongNoFrameskip-v4",
        "Environment",
        "a Gymnasium id (legacy Atari ids included), an Atari game like ms_pacman, "
        "package.module:make for one's own, pettingzoo:package.module, unity:build, or several "
        "with commas between",
    )
    env_kwargs: str = setting(
        "",
        "Environment",
        "arguments of environments written in Python: key=value,key=value or a JSON object",
    )
    wrappers: str = setting(
        "",
        "Environment",
        "wrappers of environments written in Python: package.module:name, with commas between, "
        "the innermost first",
    )
    num_action_repeats: int = setting(
        1,
        "Environment",
        "times that each action is repeated; for Atari on top of --frame_skip",
        least=1,
        most=1000,
    )
    frame_skip: int = setting(
        4, "Environment", "Atari, but not over VNC: frames that an action lasts", least=1, most=1000
    )
    frame_stack: int = setting(
        0,
        "Environment",
        "newest observations that the agent sees at once; 0: 4 for Atari and pictures in real "
        "time, otherwise 1",
        least=0,
        most=64,
    )
    width: int = setting(84, "Environment", "width of image observations", least=8, most=1024)
    height: int = setting(84, "Environment", "height of image observations", least=8, most=1024)
    crop: str = setting(
        "",
        "Environment",
        "part of pictures to keep before they are resized: top,left,height,width",
    )
    colour: bool = setting(
        False,
        "Environment",
        "Atari, Doom, worlds in real time: pictures in colour instead of grey",
    )
    sticky_actions: float | None = setting(
        None,
        "Environment",
        "chance that Atari repeats the last action instead; default: as the level's id says",
        least=0,
        most=1,
    )
    full_action_set: bool = setting(
        False, "Environment", "all 18 Atari actions instead of those that the game uses"
    )
    action_masks: bool = setting(
        False,
        "Environment",
        "environments written in Python: choose only among the actions that info['action_mask'] "
        "allows",
    )
    tell_bodies: str = setting(
        "auto",
        "Environment",
        "how an agent knows which body of a game it plays: mark (numbers, or a further channel of "
        "pictures), mirror (pictures of every second body are mirrored) or none; auto: mark for "
        "Atari, otherwise none",
        choices=TELL_BODIES,
    )
    agents: str = setting(
        "",
        "Environment",
        "names of agents that each learn for themselves in the same games, with commas between, "
        "such as left,right; each has a run of its own in LOGDIR/agents/NAME. Default: one agent "
        "plays all bodies",
    )
    product: str = setting(
        "outer",
        "Environment",
        "which of --agents play in which levels. outer: each in all; inner: the first agent in the "
        "first level, the second in the second; custom: as --bodies lists",
        choices=PRODUCTS,
    )
    bodies: str = setting(
        "",
        "Environment",
        "bodies that each of --agents has in a game: a number, or one for each level with commas "
        "between; the first agent has the first bodies. For --product=custom a list of "
        "[agent,level,body], each counted from 0, such as [[0,0,0],[1,0,1]]. Default: a game's "
        "bodies are divided evenly among its agents",
    )
    action_set: str = setting(
        "",
        "Environment",
        "worlds in real time, web pages: atari, arrows, pointer_grid, desktop, tap or a .yaml file "
        "with a list; default: the level's own actions",
    )
    fps: float = setting(
        0.0,
        "Environment",
        "worlds in real time: frames a second; an action lasts --num_action_repeats of them. "
        "0: as usual for the level",
        least=0,
        most=240,
    )
    episodic_life: bool = setting(
        True,
        "Environment",
        "training only: the loss of a life ends an Atari episode for the agent; returns are those "
        "of whole games",
    )
    noop_max: int = setting(
        30,
        "Environment",
        "an Atari game begins with a random number of frames without action, at most so many",
        least=0,
        most=10_000,
    )
    max_rewardless_steps: int = setting(
        1_000,
        "Environment",
        "training only: so many agent steps without reward end an Atari episode; 0: no limit",
        least=0,
        most=2**31 - 1,
    )
    max_episode_frames: int = setting(
        108_000,
        "Environment",
        "frames after which an Atari episode ends, in training and testing; 0: no limit",
        least=0,
        most=2**31 - 1,
    )

    @property
    def levels(self) -> list[str]:
        """The levels of ``--level_name``, in order."""
        return [name.strip() for name in self.level_name.split(",")]

    @property
    def agent_names(self) -> list[str]:
        """The names of ``--agents``, in order; empty if one agent plays all."""
        return [name.strip() for name in self.agents.split(",")] if self.agents else []

    @property
    def is_on_desktops(self) -> bool:
        """Whether one of the levels is played on desktops."""
        return any(level.startswith("vnc:") for level in self.levels)

    @property
    def is_heavy(self) -> bool:
        """Whether environments of one of the levels are programs, of which few fit on a machine."""
        return any(level.startswith(("vnc:", "browser:", "unity:")) for level in self.levels)


@dataclasses.dataclass(frozen=True)
class ActorSettings:
    """How it is played, and in pieces of which length."""

    num_actors: int = setting(2, "Actors", "actor threads of this process", least=1, most=1024)
    envs_per_actor: int = setting(
        0,
        "Actors",
        "environments that an actor plays side by side; 0: with a3c --batch_size; 4 where each is "
        "a program of its own; in step as many as fill a batch; otherwise as many as let the "
        "actors of a local training, or three with processes of their own, play two batches "
        "together, but from 10 to 32",
        least=0,
        most=MOST_ENVS,
    )
    env_threads: int = setting(
        0,
        "Actors",
        "emulator threads of an actor; 0: one a core",
        least=0,
        most=1024,
    )
    actors_on_host: int = setting(
        1,
        "Actors",
        "actors in processes of their own that share this host's cores; the frontend counts them",
        least=1,
        most=1024,
    )
    acting_device: str = setting(
        "cpu",
        "Actors",
        "where the actors of a learner's own process choose actions; cpu leaves a GPU to the "
        "updates, gpu suits large networks on machines with few cores",
        choices=DEVICES,
    )
    env_processes: str = setting(
        "auto",
        "Actors",
        "processes of an actor that step environments written in Python; 0: none, its thread does; "
        "auto: as many as there are cores for, where steps are dear",
    )
    remotes: str = setting(
        "",
        "Actors",
        "worlds in real time: host:port+port of each remote that runs elsewhere (desktop and "
        "rewarder), with commas between; default: they are started here",
    )
    remote_password_file: str = setting(
        "", "Actors", "the file of the password of --remotes, as vncpasswd or a remote writes it"
    )
    injected_lag_ms: float = setting(
        0.0,
        "Actors",
        "worlds in real time: milliseconds added to the way there and back, for studies",
        least=0,
        most=10_000,
    )
    unroll_length: int = setting(10, "Learning", "agent steps in an unroll", least=1, most=10_000)

    def __post_init__(self) -> None:
        number = str(self.env_processes)
        if number != "auto" and not (number.isdecimal() and int(number) <= MOST_PROCESSES):
            raise UserError(
                f"--env_processes={number}: expected auto, or a number from 0 to {MOST_PROCESSES}."
            )

    @property
    def worker_processes(self) -> int | None:
        """The number of ``--env_processes``; None where it is left to the environments."""
        return None if self.env_processes == "auto" else int(self.env_processes)


@dataclasses.dataclass(frozen=True)
class AgentSettings:
    """Which network plays and learns."""

    agent_name: str = setting(
        "",
        "Agent",
        f"{', '.join(AGENTS)} or package.module:Class; default: one that fits the level",
    )
    hidden_sizes: str = setting(
        "",
        "Agent",
        "outputs of the fully connected layers, such as 64,64; default: as the agent has them",
    )
    activation: str = setting(
        "auto",
        "Agent",
        "agents of vectors: what follows each fully connected layer. auto: relu where values of "
        "actions are learned, which may be large, otherwise tanh",
        choices=ACTIVATIONS,
    )
    channels: str = setting(
        "",
        "Agent",
        "channels of the convolutions (SimpleConvNetAgent: 32,64,64) or of the sections (ResNet "
        "agents: 16,32,32)",
    )
    lstm_size: int = setting(
        0, "Agent", "size of the LSTM; 0: as the agent has it", least=0, most=65536
    )
    normalise_observations: bool = setting(
        True,
        "Agent",
        "show an agent of vectors each number in units of its spread, as the learner has seen it",
    )
    separate_baseline: str = setting(
        "auto",
        "Agent",
        "agents of vectors without an LSTM: layers of its own for the baseline, so that learning "
        "values does not change what the policy sees. auto: on for algorithms of rollouts",
        choices=SEPARATE,
    )
    first_deviation: float = setting(
        1.0,
        "Agent",
        "where actions are numbers: the standard deviation of an untrained policy's, in halves of "
        "their range; a smaller one explores less and tells better what a small change is worth",
        least=0.01,
        most=2.5,
    )
    state_deviations: bool = setting(
        True,
        "Agent",
        "where actions are numbers: their standard deviations depend on what is seen; off: each "
        "number has one, which is learned",
    )
    precision: str = setting(
        "auto",
        "Agent",
        "arithmetic of convolutions and large layers; weights stay float32. auto: bfloat16 where "
        "the processor has instructions for it",
        choices=PRECISIONS,
    )
    backdrop: bool = setting(
        True,
        "Learning",
        "show an agent of pictures how pixels differ from a level's mean picture, in units of "
        "their spread, instead of as shares of 255",
    )

    def __post_init__(self) -> None:
        for name in ("hidden_sizes", "channels"):
            self._numbers(name)

    @property
    def hidden(self) -> tuple[int, ...]:
        """The numbers of ``--hidden_sizes``."""
        return self._numbers("hidden_sizes")

    @property
    def channel_counts(self) -> tuple[int, ...]:
        """The numbers of ``--channels``."""
        return self._numbers("channels")

    def _numbers(self, name: str) -> tuple[int, ...]:
        text = getattr(self, name)
        words = [word.strip() for word in str(text).split(",")] if text else []
        if not all(word.isdecimal() and 0 < int(word) <= 65536 for word in words):
            raise UserError(
                f"--{name}={text}: expected whole numbers from 1 to 65536 with commas between, "
                "such as 64,64."
            )
        return tuple(int(word) for word in words)
