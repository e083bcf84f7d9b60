"""Where keepers run: in windows of one tmux session, or detached where there is no tmux."""

import contextlib
import os
import shutil
import subprocess
import uuid

from cluster.on_host.processes import MARK

# tmux options that name the run which owns the session and its windows.
OWNER, WINDOW = "@impala_run", "@impala_window"
# Library paths; a tmux server that was already running has its own. It passes on PATH itself.
CARRIED = ("LD_LIBRARY_PATH", "PYTHONPATH")
ANSWERS_WITHIN_S = 20


class TmuxRefused(Exception):
    """A tmux command failed; the text is its error."""


def open_window(session: str, name: str, argv: list[str], folder: str, run_id: str) -> None:
    """Runs a command in a window of the session, made with the first one; or detached."""
    argv = ["env", f"{MARK}={run_id}", *argv]
    if not session or not shutil.which("tmux"):
        subprocess.Popen(
            argv,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        return
    carried = [f"{one}={os.environ[one]}" for one in CARRIED if one in os.environ]
    # At first it has a name of its own: tmux takes what follows a dot in one for a pane. All in one
    # command, as its process may end at once.
    new = uuid.uuid4().hex
    window = f"={session}:{new}"
    # A window stays after its process has ended, so that its last output can be read.
    keep = [";", "set-option", "-w", "-t", window, "remain-on-exit", "on"]
    mine = [";", "set-option", "-w", "-t", window, WINDOW, run_id]
    mine += [";", "set-option", "-t", f"={session}:", OWNER, run_id]
    # A user may have it on: tmux would end the session as soon as nobody looks at it.
    mine += [";", "set-option", "-t", f"={session}:", "destroy-unattached", "off"]
    mine += [";", "rename-window", "-t", window, name]
    # tmux would run a #( ) in a folder's name.
    what = ["-n", new, "-c", _word(folder.replace("#", "##"))]
    what += [*map(_word, [argv[0], *carried, *argv[1:]]), *keep, *mine]
    whose = owner(session)
    if whose is None:
        try:
            # 200 columns: lines of metrics are not wrapped before a client attaches.
            _tmux("new-session", "-d", "-s", session, "-x", "200", "-y", "50", *what)
            return
        except TmuxRefused:  # another part of the run on this host was faster
            whose = owner(session)
            if whose is None:
                raise
    if whose != run_id and (problem := in_the_way(session)):  # made since `clear`
        raise TmuxRefused(problem)
    _tmux("new-window", "-d", "-t", f"={session}:", *what)


def owner(session: str) -> str | None:
    """The run that owns a session, "" if it is not one of ours, None if there is no session."""
    if not shutil.which("tmux"):
        return None
    try:
        _tmux("has-session", "-t", f"={session}")
    except TmuxRefused:
        return None
    return _tmux("show-options", "-q", "-v", "-t", f"={session}:", OWNER).strip()


def in_the_way(session: str, replaced: str = "") -> str:
    """Why a run cannot have a session of this name; "" if it can, also from the replaced run."""
    whose = owner(session) if session else None
    if whose is None or (replaced and whose == replaced):
        return ""
    shown = f"#{{{WINDOW}}} #{{pane_dead}}"
    panes = _tmux("list-panes", "-s", "-t", f"={session}:", "-F", shown).splitlines()
    # A run that has ended leaves its windows to be read. Others are the user's own.
    if whose and not any(pane.endswith(" 0") for pane in panes if not pane.startswith(" ")):
        return ""
    return f"there is a tmux session {session!r} already"


def clear(session: str, run_id: str) -> str:
    """Makes room for a run's session; returns what is in the way, or ""."""
    whose = owner(session) if session else None
    if whose is None or whose == run_id:
        return ""
    problem = in_the_way(session)
    if not problem:
        close(session, whose)
    return problem


def close(session: str, run_id: str, name: str = "") -> None:
    """Closes the run's windows, or one; with the last one the session. The user's own stay."""
    # Another part of the run on this host may be faster, or a user who closes windows.
    gone = contextlib.suppress(TmuxRefused)
    with gone:
        if session and owner(session) == run_id:
            shown = f"#{{window_id}} #{{{WINDOW}}} #{{window_name}}"
            for window in _tmux("list-windows", "-t", f"={session}:", "-F", shown).splitlines():
                number, whose, called = window.split(" ", 2)
                if whose == run_id and name in ("", called):
                    with gone:
                        _tmux("kill-window", "-t", number)


def _word(text: str) -> str:
    """A word quoted for tmux, where a semicolon at the end starts another command."""
    return f"{text[:-1]}\\;" if text.endswith(";") else text


def _tmux(*words: str) -> str:
    pipe = subprocess.PIPE
    with subprocess.Popen(["tmux", *words], stdout=pipe, stderr=pipe, text=True) as tmux:
        # Second by second: while the host stalls, tmux stalls as well, and only one is counted.
        for _ in range(ANSWERS_WITHIN_S):
            with contextlib.suppress(subprocess.TimeoutExpired):
                out, error = tmux.communicate(timeout=1)
                break
        else:
            tmux.kill()
            raise TimeoutError(f"tmux {words[0]} has not answered for {ANSWERS_WITHIN_S} s")
    if tmux.returncode:
        raise TmuxRefused(error.strip())
    return out
