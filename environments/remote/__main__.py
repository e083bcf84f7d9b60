"""``python -m environments.remote serve``: a game on a desktop of its own, until Ctrl-C."""

import contextlib
import dataclasses
import os
import signal
import sys
import threading
from pathlib import Path

import flags
from environments.realtime import game_file, password, stamp
from environments.realtime.levels import check_installed
from environments.realtime.link import Address
from environments.remote import folder as folders
from environments.remote.desktop import Desktop, check_free, check_host, number_of
from environments.remote.options import Options
from environments.remote.program import ProgramWorld
from environments.remote.serving import Game, Record, announcement
from environments.remote.window import Window
from environments.remote.worlds import LevelWorld, World, desktop_size
from environments.view import View
from user_error import EndedOutside, UserError

ENDS_WITHIN_S = 30
DESCRIPTION = "Serve a game on a desktop of its own, until Ctrl-C."
EXAMPLES = """examples:
  python -m environments.remote serve --level_name=Catch-v0 --fps=10
  python -m environments.remote serve --game=sandbox/racer.yaml
"""


def main() -> int:
    """Runs the command line; 2 for a mistake of the user, 1 where another try may help."""
    arguments = sys.argv[1:]
    try:
        if not arguments or arguments[0] not in ("serve", "--help", "-h"):
            told = "expected a command: python -m environments.remote serve --help."
            raise UserError(flags.with_this_python(told))
        fields = dataclasses.fields(Options)
        parser = flags.parser_of(
            fields, "python -m environments.remote serve", DESCRIPTION, EXAMPLES
        )
        options = Options(**flags.parse(parser, [one for one in arguments if one != "serve"]))
        flags.check_ranges(options)
        serve(options)
    except UserError as error:
        print(f"remote: {error}", file=sys.stderr)
        return 2
    except EndedOutside as error:
        print(f"remote: {error}", file=sys.stderr)
        return 1
    except OSError as error:  # such as a full disk
        print(f"remote: {error}.", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        pass  # before there was a game
    return 0


def serve(options: Options) -> None:
    """Serves a game until a signal."""
    ending = Ending(options.with_parent)
    _check(options)
    from environments.remote.rewarder import Rewarder  # late: few have what it needs

    record = Record(options.record)
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(folders.made(options.folder))
        if options.password_file:
            file = Path(options.password_file)
            secret = password.read(options.password_file, "--password_file")
        else:
            file = folder / "password"
            secret = password.make(file)
        # A level that draws with pygame opens its screen before there is a desktop: not the user's.
        os.environ["SDL_VIDEODRIVER"] = "dummy"
        world = _world(options)
        stack.callback(world.close)
        width, height = desktop_size(world)
        desktop = Desktop(width, height, options.host, options.vnc_port, file, folder, world.fps)
        stack.callback(desktop.close)
        os.environ |= desktop.environment
        if isinstance(world, ProgramWorld):
            # The program has the rest of the desktop; the window is only for the stamp.
            window = Window(width, stamp.HEIGHT, top=height - stamp.HEIGHT)
            world.appear(options.host, desktop.port, secret)
        else:
            window = Window(width, height)
        stack.callback(window.close)
        game = Game(world, window, record, folder.name)
        try:
            host = number_of(options.host)
            rewarder = Rewarder(host, options.rewarder_port, secret, game.describe)
        except OSError as error:
            raise EndedOutside(
                f"the rewarder cannot listen at {options.host}:{options.rewarder_port} "
                f"({error.strerror})."
            ) from None
        stack.callback(rewarder.close)
        ending.is_of(game)
        address = Address(options.host, desktop.port, rewarder.port)
        print(announcement(address, file))
        print(f"look: {address.look(str(file))}", flush=True)
        game.run(rewarder)


def _check(options: Options) -> None:
    """Refuses what does not fit together, what is missing, and places where nothing can listen."""
    check_installed("websockets", "pygame")
    if bool(options.level_name) == bool(options.game):
        raise UserError("give one of --level_name and --game.")
    if options.vnc_port and options.vnc_port == options.rewarder_port:
        raise UserError(
            f"--vnc_port and --rewarder_port are both {options.vnc_port}: give each its own, or 0 "
            "for one that is free."
        )
    check_host(options.host)
    for port, flag in (
        (options.vnc_port, "--vnc_port"),
        (options.rewarder_port, "--rewarder_port"),
    ):
        if port:
            check_free(options.host, port, flag)


def _world(options: Options) -> World:
    view = View(
        env_kwargs=options.env_kwargs,
        wrappers=options.wrappers,
        full_action_set=options.full_action_set,
    )
    if options.game:
        return ProgramWorld(options.game, game_file.read(options.game, view), options.fps)
    return LevelWorld(options.level_name, view, options.fps, options.seed)


class Ending:
    """Ends at a signal, or with the parent: a start at once, a game after its frame.

    A level that hangs there is ended by the system, as nobody may be left to do so.
    """

    def __init__(self, with_parent: bool) -> None:
        self._game: Game | None = None
        self._is_asked = False
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._end)
        if with_parent:
            threading.Thread(target=_watch_parent, name="parent", daemon=True).start()

    def is_of(self, game: Game) -> None:
        """From now on it is the game that ends."""
        self._game = game
        if self._is_asked:
            game.stop()

    def _end(self, *_: object) -> None:
        if self._is_asked:
            return  # another one would interrupt what removes and ends things
        self._is_asked = True
        signal.alarm(ENDS_WITHIN_S)
        if self._game:
            self._game.stop()
        else:
            raise KeyboardInterrupt


def _watch_parent() -> None:
    while os.read(0, 1024):
        pass
    signal.alarm(ENDS_WITHIN_S)  # a main thread that hangs outside of Python takes no signal
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main())
