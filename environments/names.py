"""Parses level names: an Atari game, a Gymnasium id, your own environment, or a reserved word."""

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass

import ale_py
import gymnasium
from ale_py import roms

from environments.python.dummy import DummyLevel, parse
from user_error import UserError, closest

gymnasium.register_envs(ale_py)
gymnasium.register("Catch-v0", entry_point="environments.python.catch:Catch")
gymnasium.register("ArmReach-v0", entry_point="environments.python.arm.reach:ArmReach")
gymnasium.register(
    "ArmReachPictures-v0", entry_point="environments.python.arm.pictures:ArmReachPictures"
)

# These cartridges are for several players only; Gymnasium has no ids for them either.
_SEVERAL_PLAYERS = {"combat", "joust", "maze_craze", "warlords"}

_LEGACY_FORMS = tuple(
    kind + version for version in ("-v4", "-v0") for kind in ("NoFrameskip", "Deterministic", "")
)
_ATARI_ID = re.compile(
    r"ALE/(?P<game>\w+)-v5|(?P<legacy>[A-Za-z0-9]+?)(?:NoFrameskip|Deterministic)?-v(?P<version>[04])"
)
_VERSION = re.compile(r"-v\d+$")
_MODULE_AND_ID = re.compile(r"[\w.]+:[\w./-]+-v\d+")
_MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
_OWN = re.compile(r"(?P<module>[A-Za-z_][\w.]*):(?P<attribute>[A-Za-z_][\w.]*)")


@dataclass(frozen=True)
class AtariLevel:
    """A game of the Arcade Learning Environment."""

    rom: str
    sticky_actions: float  # the probability that the emulator repeats the last action


@dataclass(frozen=True)
class GymnasiumLevel:
    """An id in Gymnasium's registry, or `package:id`, whose import registers it."""

    id: str


@dataclass(frozen=True)
class OwnLevel:
    """`package.module:make`, a callable that returns a Gymnasium environment."""

    module: str
    attribute: str


@dataclass(frozen=True)
class RealTimeLevel:
    """What a remote serves on a desktop: a level's name, or the YAML file of a program."""

    served: str

    @property
    def is_program(self) -> bool:
        """Whether it is the file of a program; pages have files, too."""
        return self.served.endswith(DESCRIPTIONS) and not self.served.startswith("browser:")


@dataclass(frozen=True)
class BrowserLevel:
    """A web page: dino, a task of MiniWoB++, or the YAML file that describes it."""

    page: str


@dataclass(frozen=True)
class BodiesLevel:
    """`pettingzoo:package.module`, whose `parallel_env` makes a game of several bodies."""

    module: str

    @property
    def is_atari(self) -> bool:
        """Whether it is one of PettingZoo's Atari games."""
        return self.module.removeprefix("pettingzoo.").startswith("atari.")


@dataclass(frozen=True)
class UnityLevel:
    """A build of Unity with ML-Agents: its name, or the path of its program."""

    build: str


@dataclass(frozen=True)
class ExtraLevel:
    """`kind:name`, a world that the extra of that kind brings, such as doom:basic."""

    kind: str
    name: str


# Those that are stepped one by one, in this process or in others.
PythonLevel = GymnasiumLevel | OwnLevel | BrowserLevel | ExtraLevel | DummyLevel
Level = AtariLevel | PythonLevel | RealTimeLevel | BodiesLevel | UnityLevel
DESCRIPTIONS = (".yaml", ".yml")


def _real_time(served: str) -> RealTimeLevel:
    level = RealTimeLevel(served)
    if not level.is_program:
        find(served)
    return level


EXPECTED_BODIES = (
    "expected pettingzoo:package.module, such as pettingzoo:mpe2.simple_spread_v3 or "
    "pettingzoo:atari.pong_v3"
)


def _bodies(module: str) -> BodiesLevel:
    if not _MODULE.fullmatch(module):
        raise UserError(f"--level_name: pettingzoo:{module}: {EXPECTED_BODIES}.")
    return BodiesLevel(module)


_EXTRAS = ("doom", "procgen", "robotics", "dm_control")
# Words that are reserved in front of a colon, and what makes a level of the rest.
REAL_TIME = "vnc"
PREFIXES: dict[str, Callable[[str], Level]] = {
    REAL_TIME: _real_time,
    "browser": BrowserLevel,
    "pettingzoo": _bodies,
    "unity": UnityLevel,
    **{kind: functools.partial(ExtraLevel, kind) for kind in _EXTRAS},
    "dummy": parse,
}


def find(level_name: str) -> Level:
    """The level of a name; a UserError with its successor or the nearest names if it is unknown."""
    prefix, colon, rest = level_name.partition(":")
    if colon and prefix in PREFIXES:
        return PREFIXES[prefix](rest)
    if level_name in _games().values():
        return AtariLevel(level_name, sticky_actions=0.0)
    atari = _ATARI_ID.fullmatch(level_name)
    if atari:
        rom = _games().get(atari["game"] or atari["legacy"])
        if rom:
            return AtariLevel(rom, sticky_actions=0.0 if atari["version"] == "4" else 0.25)
    if level_name in gymnasium.registry or _MODULE_AND_ID.fullmatch(level_name):
        return GymnasiumLevel(level_name)
    own = _OWN.fullmatch(level_name)
    if own:
        return OwnLevel(own["module"], own["attribute"])
    if level_name.endswith(DESCRIPTIONS):
        raise UserError(
            f"--level_name: {level_name} is a file: expected vnc:{level_name} for a program (which "
            f"a remote serves by --game), or browser:{level_name} for a page."
        )
    successor = newest_version(level_name)
    if successor:
        raise UserError(
            f"--level_name: there is no level {level_name!r}: its newest version is {successor}."
        )
    raise UserError(
        f"--level_name: there is no level {level_name!r}. {closest(level_name, known_levels())} "
        "Give your own environment as package.module:make."
    )


def is_atari(level_name: str) -> bool:
    """Whether it is a game of the Arcade Learning Environment."""
    return isinstance(find(level_name), AtariLevel)


def has_atari_scores(level_name: str) -> bool:
    """Whether rewards are an Atari game's scores: in the emulator, for several, or on a desktop."""
    level = find(level_name)
    if isinstance(level, RealTimeLevel):
        return not level.is_program and has_atari_scores(level.served)
    return level.is_atari if isinstance(level, BodiesLevel) else isinstance(level, AtariLevel)


def is_real_time(level_name: str) -> bool:
    """Whether it is a world that does not wait."""
    return level_name.startswith(f"{REAL_TIME}:")


def newest_version(level_name: str) -> str | None:
    """The newest id that Gymnasium has of the same environment; None if it has no other."""
    name, *_ = _VERSION.split(level_name)
    others = [
        one for one in gymnasium.registry if _VERSION.search(one) and _VERSION.sub("", one) == name
    ]
    newest = max(others, key=lambda one: int(one.rpartition("-v")[2]), default=None)
    return None if newest == level_name else newest


def remark(level_name: str) -> str | None:
    """How a game is played whose name means something else in Gymnasium, or nothing."""
    level = find(level_name)
    if not isinstance(level, AtariLevel) or "NoFrameskip" in level_name or "ALE/" in level_name:
        return None
    game = next(name for name, rom in _games().items() if rom == level.rom)
    version = "v0" if level.sticky_actions else "v4"
    played = f"{game}NoFrameskip-{version}"
    return f"{level_name} is played as {played}; flags set its frame skip and sticky actions."


@functools.cache
def known_levels() -> tuple[str, ...]:
    """Every known name of an Atari game and id of Gymnasium; not all are installed."""
    atari = [f"ALE/{game}-v5" for game in _games()]
    legacy = [game + form for form in _LEGACY_FORMS for game in _games()]
    others = [name for name in gymnasium.registry if name not in {*atari, *legacy}]
    return (*legacy, *atari, *others, *_games().values())


@functools.cache
def _games() -> dict[str, str]:
    """The name of each game as ids spell it, and its cartridge: MsPacman, ms_pacman."""
    return {
        rom.title().replace("_", ""): rom
        for rom in sorted(roms.get_all_rom_ids())
        if rom not in _SEVERAL_PLAYERS
    }
