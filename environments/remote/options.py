"""The flags of a remote."""

import dataclasses

from environments.realtime.game_file import MOST_FPS
from flags import setting

GROUP, WHERE = "What to serve", "Where"


@dataclasses.dataclass(frozen=True)
class Options:
    """What a remote serves, and where it listens."""

    level_name: str = setting(
        "", GROUP, "a Gymnasium level, Atari game or browser:PAGE, drawn in a window"
    )
    game: str = setting("", GROUP, "a program instead, described in a YAML file")
    fps: float = setting(
        0.0, GROUP, "frames a second; 0: the speed for human players", least=0, most=MOST_FPS
    )
    seed: int = setting(1, GROUP, "seed of the level", least=0, most=2**31 - 1)
    env_kwargs: str = setting("", GROUP, "arguments of the level, as experiment.py takes them")
    wrappers: str = setting("", GROUP, "wrappers of the level, as experiment.py takes them")
    full_action_set: bool = setting(
        False, GROUP, "all 18 actions of an Atari game, as experiment.py takes them"
    )
    record: str = setting("", GROUP, "file to which frames, keys and episodes go with their times")
    host: str = setting(
        "127.0.0.1",
        WHERE,
        "address to listen at. Nothing is encrypted: keep to loopback, and reach other hosts "
        "through SSH tunnels or a network of your own",
    )
    vnc_port: int = setting(0, WHERE, "port of the desktop; 0: a free one", least=0, most=65535)
    rewarder_port: int = setting(
        0, WHERE, "port of the rewarder; 0: a free one", least=0, most=65535
    )
    password_file: str = setting(
        "", WHERE, "file of a VNC password, as vncpasswd writes it; default: a new one"
    )
    folder: str = setting(
        "", WHERE, "folder to make for its files and to remove at the end; default: one in /tmp"
    )
    with_parent: bool = setting(
        False, WHERE, "end when standard input is closed, as it is when the starting process ends"
    )
