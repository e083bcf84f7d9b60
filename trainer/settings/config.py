"""Every setting of a run, defined once: flags, help, checks, records and docs come from here.

Nothing heavy is imported, so that ``--help`` answers at once.
"""

import argparse
import dataclasses
import ipaddress
import json
import math
import re
import shlex
from collections.abc import Iterable, Sequence

import credentials
import flags
from flags import setting
from user_error import UserError

MODES = ("train", "test", "export")
JOBS = ("local", "learner", "actor")
TRANSPORTS = ("tensorflow", "secure")
PRECISIONS = ("auto", "float32", "bfloat16")
OPTIMIZERS = ("rmsprop", "adam")
REWARD_CLIPPINGS = ("abs_one", "soft_asymmetric", "none")
POLICIES = ("sampled", "greedy")
COMPRESSIONS = ("none", "fp16", "bf16")
CORRECTIONS = ("vtrace", "none")
# Environments of an actor where no one says how many.
FEWEST_ENVS, MOST_ENVS = 10, 32
ACTORS_ELSEWHERE = 3


@dataclasses.dataclass(frozen=True)
class Settings:
    """All settings of one process; ``parse`` makes them from flags."""

    mode: str = setting(
        "train",
        "What to do",
        "train an agent, test a trained one, or export it as a TensorFlow SavedModel",
        choices=MODES,
    )
    job_name: str = setting(
        "local",
        "What to do",
        "local: actors and learner in this one process; learner or actor: one of many processes",
        choices=JOBS,
    )
    logdir: str = setting(
        "",
        "What to do",
        "folder of the run: checkpoints, metrics, pictures. The same command with the same "
        "folder resumes. Default: logs/LEVEL",
    )
    seed: int = setting(
        1, "What to do", "seed of environments, weights and actions", least=0, most=2**31 - 1
    )

    level_name: str = setting(
        "PongNoFrameskip-v4",
        "Environment",
        "a Gymnasium id (legacy Atari ids included), package.module:make for one's own, "
        "or several with commas between",
    )
    num_action_repeats: int = setting(
        1,
        "Environment",
        "times that each action is repeated; for Atari on top of the standard 4 frames a step",
        least=1,
        most=1000,
    )
    width: int = setting(84, "Environment", "width of image observations", least=8, most=1024)
    height: int = setting(84, "Environment", "height of image observations", least=8, most=1024)
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
    episodic_life: bool = setting(
        False, "Environment", "training only: the loss of a life ends an Atari episode"
    )

    num_actors: int = setting(2, "Actors", "actor threads of this process", least=1, most=1024)
    envs_per_actor: int = setting(
        0,
        "Actors",
        "environments that an actor plays side by side; 0: as many as let the actors of a local "
        "training, or three with processes of their own, play two batches together, but from 10 "
        "to 32",
        least=0,
        most=4096,
    )
    env_threads: int = setting(
        0,
        "Actors",
        "emulator threads of an actor; 0: one a core",
        least=0,
        most=1024,
    )

    task: int = setting(
        0,
        "Cluster",
        "number of this actor: its seed, and which level it plays",
        least=0,
        most=10**6,
    )
    learner_host: str = setting(
        "localhost:8001",
        "Cluster",
        "host:port at which a learner listens, and at which its actors find it",
    )
    actor_hosts: str = setting(
        "",
        "Cluster",
        "host:port of a learner's actors, with commas between; any others may join as well",
    )
    transport: str = setting(
        "tensorflow",
        "Cluster",
        "how learners and actors talk. tensorflow: its own server, which obeys whoever reaches its "
        "port; secure: gRPC over TLS with a token, see docs/trust.md",
        choices=TRANSPORTS,
    )
    credentials: str = setting(
        "",
        "Cluster",
        "--transport=secure: file by which learners and actors know each other. Default: "
        "learner.pem, which a learner makes if it is missing, or actor.pem, in LOGDIR/credentials",
    )
    max_batch_wait_s: float = setting(
        5.0,
        "Cluster",
        "seconds that other learners wait for one whose actors are late, before they go on "
        "without its batch",
        above=0,
    )
    peer_timeout_s: float = setting(
        10.0,
        "Cluster",
        "seconds of silence after which a peer counts as gone",
        least=0.5,
        most=86_400,
    )
    gradient_compression: str = setting(
        "none",
        "Cluster",
        "how gradients travel between learners; fp16 and bf16 halve their bytes and round them, "
        "fp16 less, but an update with a number above 65504 is skipped",
        choices=COMPRESSIONS,
    )
    synthetic_unrolls: bool = setting(
        False,
        "Cluster",
        "a learner makes up its unrolls and needs no actors: to measure learners, nothing is "
        "learned",
    )

    agent_name: str = setting(
        "",
        "Agent",
        "SimpleConvNetAgent, ResNetAgent, ResNetLSTMAgent, VectorAgent, VectorLSTMAgent or "
        "package.module:Class; default: one that fits the level",
    )
    precision: str = setting(
        "auto",
        "Agent",
        "arithmetic of convolutions and large layers; weights stay float32. auto: bfloat16 where "
        "the processor has instructions for it",
        choices=PRECISIONS,
    )

    total_environment_frames: int = setting(
        0,
        "Learning",
        "frames to train for, over all resumes. 0: 10,000,000 where the agent sees pictures, "
        "1,000,000 elsewhere",
        least=0,
        most=10**15,
    )
    batch_size: int = setting(8, "Learning", "unrolls in an update", least=1, most=65536)
    unroll_length: int = setting(10, "Learning", "agent steps in an unroll", least=1, most=10_000)
    queue_capacity: int = setting(
        0,
        "Learning",
        "unrolls that actors may be ahead of the learner, those in play included; more would "
        "only be older. 0: one from each environment, or a batch where that is more",
        least=0,
        most=10**6,
    )
    discounting: float = setting(0.99, "Learning", "discount of later reward", least=0, most=1)
    reward_clipping: str = setting(
        "abs_one",
        "Learning",
        "abs_one: to [-1, 1]; soft_asymmetric: smooth, losses weigh less; none",
        choices=REWARD_CLIPPINGS,
    )
    entropy_cost: float = setting(0.01, "Learning", "weight of the entropy bonus", least=0)
    baseline_cost: float = setting(0.5, "Learning", "weight of the baseline's loss", least=0)
    correction: str = setting(
        "vtrace",
        "Learning",
        "vtrace: weigh unrolls by how likely the newest policy is to act alike; none: take them "
        "as they are, to see what V-trace is worth",
        choices=CORRECTIONS,
    )
    vtrace_lambda: float = setting(
        0.95, "Learning", "V-trace's lambda: below 1, less of the far future", least=0, most=1
    )
    gradients_clipping: float = setting(
        0.5, "Learning", "largest global norm of the gradients; not positive: off"
    )
    optimizer: str = setting("adam", "Learning", "how gradients move weights", choices=OPTIMIZERS)
    learning_rate: float = setting(
        0.0006,
        "Learning",
        "step size, decaying linearly to 0 at --total_environment_frames",
        above=0,
    )
    decay: float = setting(
        0.99,
        "Learning",
        "RMSProp: decay of the mean square of gradients",
        least=0,
        most=1,
    )
    momentum: float = setting(0.0, "Learning", "RMSProp: momentum", least=0, most=1)
    epsilon: float = setting(
        1e-5,
        "Learning",
        "RMSProp: added under the root of the mean square; Adam: to that root",
        above=0,
    )
    publish_every_updates: int = setting(
        1,
        "Learning",
        "updates after which actors get new weights; more spares the network and makes the "
        "policies that act older",
        least=1,
    )
    replay_share: float = setting(
        0.0,
        "Learning",
        "share of a batch that is drawn from recent unrolls instead of new ones",
        least=0,
        most=0.95,
    )
    replay_capacity: int = setting(
        512, "Learning", "recent unrolls kept for --replay_share", least=1, most=10**7
    )
    popart: bool = setting(
        True,
        "Learning",
        "learn the baseline in units of its targets' spread, for each level by itself, so that "
        "costs mean the same whatever the size of rewards",
    )
    backdrop: bool = setting(
        True,
        "Learning",
        "show an agent of pictures how pixels differ from a level's mean picture, in units of "
        "their spread, instead of as shares of 255",
    )
    max_skipped_updates: int = setting(
        20,
        "Learning",
        "updates in a row with losses or gradients that are not finite before the run stops",
        least=1,
    )

    report_every_s: float = setting(
        10.0, "Watching", "seconds between two lines of metrics", above=0
    )
    checkpoint_every_s: float = setting(
        60.0, "Watching", "seconds between two checkpoints", above=0
    )
    keep_checkpoints: int = setting(
        3, "Watching", "newest checkpoints to keep, besides the best", least=1
    )

    checkpoint: str = setting(
        "newest", "Testing", "newest, best, or a checkpoint's file or number of frames"
    )
    test_num_episodes: int = setting(
        10, "Testing", "episodes to play on each level", least=1, most=100_000
    )
    test_policy: str = setting(
        "sampled", "Testing", "sampled actions, or greedy: the likeliest one", choices=POLICIES
    )
    video: str = setting("", "Testing", "record an episode here: FILE.mp4 or FILE.gif")
    watch: bool = setting(False, "Testing", "show the game in a window while it is played")
    export_dir: str = setting(
        "", "Testing", "where --mode=export writes the SavedModel; default: LOGDIR/export"
    )

    @property
    def levels(self) -> list[str]:
        """The levels of ``--level_name``, in order."""
        return [name.strip() for name in self.level_name.split(",")]

    @property
    def run_folder(self) -> str:
        """``--logdir``, or its default by the level's name."""
        safe = self.level_name.replace("/", "-").replace(",", "+").replace(":", "-")
        return self.logdir or f"logs/{safe}"

    @property
    def credentials_folder(self) -> str:
        """Where a learner makes credentials, and where they are looked for unless named."""
        return f"{self.run_folder}/{credentials.FOLDER}"

    @property
    def credentials_file(self) -> str:
        """``--credentials``, or its default by ``--job_name``."""
        name = credentials.LEARNER if self.job_name == "learner" else credentials.ACTOR
        return self.credentials or f"{self.credentials_folder}/{name}"


def fields() -> tuple[dataclasses.Field, ...]:
    """The settings' definitions, in the order in which they are listed."""
    return dataclasses.fields(Settings)


def parse(arguments: Sequence[str]) -> Settings:
    """Settings from a command line; ``UserError`` names what is wrong with a flag."""
    settings = Settings(**flags.parse(make_parser(), arguments))
    check(settings)
    return settings


def given(arguments: Iterable[str]) -> frozenset[str]:
    """The settings that a command line names, be it with their defaults."""
    words = {argument.partition("=")[0] for argument in arguments}
    names = (field.name for field in fields())
    return frozenset(name for name in names if words & {f"--{name}", f"--no{name}"})


def check(settings: Settings) -> None:
    """Refuses values out of their range, each named by its flag."""
    flags.check_ranges(settings)
    if not all(settings.levels):
        raise UserError(
            f"--level_name={settings.level_name}: there is an empty name between the commas."
        )
    twice = [name for name in settings.levels if settings.levels.count(name) > 1]
    if twice:
        raise UserError(f"--level_name={settings.level_name}: {twice[0]} is given twice.")
    if settings.mode == "train" and settings.job_name == "local":
        _check_local(settings)
    if settings.mode == "train" and settings.job_name != "local":
        address(settings)
    if settings.video and not settings.video.lower().endswith((".mp4", ".gif")):
        raise UserError(f"--video={settings.video}: the name must end in .mp4 or .gif.")


def _check_local(settings: Settings) -> None:
    """Whether the actors of this process can do what is asked of them."""
    if settings.synthetic_unrolls:
        raise UserError("--synthetic_unrolls is for --job_name=learner, which has no actors.")
    if len(settings.levels) > settings.num_actors:
        raise UserError(
            f"--level_name names {len(settings.levels)} levels, but --num_actors is "
            f"{settings.num_actors}: each level needs an actor of its own. "
            f"Give --num_actors={len(settings.levels)} or more."
        )
    ahead = max(settings.num_actors * envs_per_actor(settings), capacity(settings))
    if fresh_unrolls(settings) > ahead:
        raise UserError(
            f"--batch_size={settings.batch_size} cannot be filled: {settings.num_actors} actors "
            f"× {envs_per_actor(settings)} environments with --queue_capacity="
            f"{settings.queue_capacity} give {ahead} unrolls at a time. Lower --batch_size, or "
            "raise --num_actors, --envs_per_actor or --queue_capacity."
        )


def address(settings: Settings) -> tuple[str, int]:
    """Host and port of ``--learner_host``; an address of IPv6 is in brackets."""
    host, _, port = settings.learner_host.rpartition(":")
    if not _is_host(host) or not port.isdecimal() or not 0 < int(port) < 65536:
        raise UserError(
            f"--learner_host={settings.learner_host}: wanted is host:port, "
            "for example localhost:8001."
        )
    host = host.strip("[]")
    return f"[{host}]" if ":" in host else host, int(port)


def _is_host(host: str) -> bool:
    """Whether it is a name that can be looked up, or an address."""
    try:
        if ":" in host:
            return bool(ipaddress.IPv6Address(host.strip("[]")))
        return bool(re.fullmatch(r"[^\s/]+", host) and host.encode("idna"))
    except ValueError:
        return False


def envs_per_actor(settings: Settings) -> int:
    """Environments that an actor plays side by side.

    More of them share what each call of the network costs, and make unrolls older.
    """
    if settings.envs_per_actor:
        return settings.envs_per_actor
    # While the learner trains on one batch, the next is played. An actor in a process of its own
    # does not know how many there are, and counts with a few.
    actors = settings.num_actors if settings.job_name == "local" else ACTORS_ELSEWHERE
    ahead = math.ceil(2 * fresh_unrolls(settings) / actors)
    return min(max(FEWEST_ENVS, ahead), MOST_ENVS)


def capacity(settings: Settings) -> int:
    """Unrolls that actors may be ahead of the learner."""
    in_play = settings.num_actors * envs_per_actor(settings)
    return settings.queue_capacity or max(in_play, fresh_unrolls(settings))


def waiting_unrolls(settings: Settings) -> int:
    """Unrolls that may wait at a learner whose actors are in other processes."""
    return settings.queue_capacity or fresh_unrolls(settings)


def fresh_unrolls(settings: Settings) -> int:
    """New unrolls in a batch; the rest of it is replayed."""
    return max(1, settings.batch_size - round(settings.batch_size * settings.replay_share))


def to_flags(settings: Settings) -> list[str]:
    """The flags that give these settings again; those left at their defaults are not named."""
    return [
        f"--{field.name}={flags.text_of(getattr(settings, field.name))}"
        for field in fields()
        if getattr(settings, field.name) != field.default
    ]


def to_command(settings: Settings) -> str:
    """The flags as they can be pasted into a shell."""
    return " ".join(shlex.quote(flag) for flag in to_flags(settings))


def to_json(settings: Settings) -> str:
    """All settings as a JSON object."""
    return json.dumps(dataclasses.asdict(settings), indent=2)


def make_parser() -> argparse.ArgumentParser:
    """The command line's definition, made from ``Settings``."""
    return flags.parser_of(
        fields(), "experiment.py", "Train, evaluate or export an IMPALA agent.", EXAMPLES
    )


EXAMPLES = """examples:
  python experiment.py                                   Pong, with settings that learn it
  python experiment.py --level_name=CartPole-v1
  python experiment.py --mode=test --video=pong.gif      play with what was trained, record it
  python experiment.py --level_name=BreakoutNoFrameskip-v4 --logdir=logs/breakout
"""
