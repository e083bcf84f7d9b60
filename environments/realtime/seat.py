"""One environment of a batch: the episodes of whatever remote it has at the moment."""

from typing import NamedTuple

import numpy as np

from environments.realtime import messages, stamp
from environments.realtime.link import Link, Snapshot

# No new picture for so long: what is seen is not the game any more.
STALLED_AFTER_MS = 500.0
STALLED_AFTER_FRAMES = 5
# For so long when an unroll ends: whether the game still runs is not known, so it does not count.
DOUBTFUL_AFTER_MS = 200.0
DOUBTFUL_AFTER_FRAMES = 3
# For so long: the remote is frozen, and given up. A reset may take longer.
FROZEN_AFTER_MS, RESET_WITHIN_MS = 3_000.0, 10_000.0
FROZEN_AFTER_FRAMES = 6
# Nobody looked for so long, or two ticks: episodes that began or ended meanwhile were not played.
MISSED_AFTER_MS = 500.0


class Row(NamedTuple):
    """What a tick shows of an environment."""

    picture: np.ndarray | None  # None: there is none, the last one stays
    playing: bool  # whether an action is wanted
    reward: float = 0.0
    terminated: bool = False
    over: bool = False  # the episode ends with this row
    first: bool = False
    spoilt: bool = False  # the game has not run as it should
    lost: bool = False  # the running episode has no end
    snapshot: Snapshot | None = None
    rewards: int = 0  # of which `reward` is the sum


class Seat:
    """Follows episodes; ``row`` is called at each tick."""

    def __init__(self, period_ms: float) -> None:
        """``period_ms`` lie between two ticks."""
        self._missed_after_ms = max(MISSED_AFTER_MS, 2 * period_ms)
        self._seen_at: float | None = None  # when the last row was
        self._gap_ms = 0.0  # between that one and the row before
        self._missed = False  # nobody has looked for long before the newest row
        self.link: Link | None = None
        self._new: Link | None = None  # as another thread has found it
        self._episode = ""
        self._playing = False
        self._reason = ""
        self._doubtful = False
        self._stopped_at: float | None = None  # as the remote has said of its program

    def given_up(self) -> str:
        """Why the remote is to be given up, or nothing."""
        return self._reason

    def is_doubtful(self) -> bool:
        """Whether the newest row may be that of a game which does not run any more."""
        return self._doubtful

    def offer(self, link: Link | None) -> None:
        """Gives it another remote, or none; may be called from another thread."""
        self._new = link
        self._reason = ""

    @property
    def is_offered(self) -> bool:
        """Whether there is a remote."""
        return self._new is not None

    def restart(self) -> None:
        """Wants another episode than the one that is running."""
        if self.link and self._playing:
            self._playing = False
            self.link.ask_reset(self._episode)

    def row(self, now: float) -> Row:
        """The next row, at this time in milliseconds."""
        missed = self._missed = self._has_missed(now)
        if self._new is not self.link:
            return self._change()
        if self.link is None:
            return Row(None, playing=False, first=True, spoilt=True)
        snapshot = self.link.take()
        silence = now - snapshot.received
        self._doubtful = self._playing and silence > self._at_least(
            DOUBTFUL_AFTER_MS, DOUBTFUL_AFTER_FRAMES
        )
        longest = FROZEN_AFTER_MS if self._playing else RESET_WITHIN_MS
        if silence > self._at_least(longest, FROZEN_AFTER_FRAMES):
            self._give_up("no new picture for seconds")
        if not self._playing:
            return self._skip(snapshot) if missed else self._wait(snapshot)
        row = self._play(snapshot, now)
        if missed and row.over:
            return self._skip(snapshot)._replace(lost=True)
        stalled = silence > self._at_least(STALLED_AFTER_MS, STALLED_AFTER_FRAMES)
        if stalled or self._stands_still(snapshot, now):
            row = row._replace(first=True, spoilt=True)
        return row

    def _has_missed(self, now: float) -> bool:
        """Whether nobody has looked for long. One who always takes so long has not missed it."""
        since = now if self._seen_at is None else self._seen_at
        before, self._gap_ms, self._seen_at = self._gap_ms, now - since, now
        return self._gap_ms > max(self._missed_after_ms, 2 * before)

    def _give_up(self, reason: str) -> None:
        """Gives the remote up, unless nobody has looked for long.

        Then what has come meanwhile may be unread, and the next row decides.
        """
        if not self._missed:
            self._reason = reason

    def _at_least(self, milliseconds: float, frames: int) -> float:
        assert self.link
        return max(milliseconds, frames * 1000.0 / float(self.link.described.get("fps") or 1.0))

    def _stands_still(self, snapshot: Snapshot, now: float) -> bool:
        """Whether the program itself does, though the stamp beside it is drawn on and on."""
        assert self.link
        if self._stopped_at is not None:
            if now - self._stopped_at > FROZEN_AFTER_MS:
                self._give_up("its program was stopped")
            return True
        most = 1000.0 * float(self.link.described.get("still_s") or 0.0)
        if not most or snapshot.pressed is None or now - snapshot.pressed < most:
            return False
        self._give_up(f"keys change nothing in its picture for {most / 1000:g} s")
        return True

    def _change(self) -> Row:
        """Takes the other remote, whose running episode nobody has played."""
        had, self.link = self._playing, self._new
        self._playing = False
        self._stopped_at = None
        if self.link:
            self._episode = self.link.first_episode
            self._end_unseen(self.link)
        return Row(None, playing=False, first=True, spoilt=True, lost=had)

    def _skip(self, snapshot: Snapshot) -> Row:
        """A row of the wait for another episode than those that have begun unseen."""
        assert self.link
        self._end_unseen(self.link)
        return Row(snapshot.picture, playing=False, first=True, snapshot=snapshot)

    def _end_unseen(self, link: Link) -> None:
        """Asks for the end of the newest episode, and forgets what was told of all of them."""
        self._episode = link.drop_messages() or self._episode
        # Without one, the first is about to begin; to ask now would end that one.
        if self._episode:
            link.ask_reset(self._episode)

    def _wait(self, snapshot: Snapshot) -> Row:
        """The first row of an episode that has begun, or one of the wait for it."""
        assert self.link
        while message := self.link.next_message(snapshot.drawn):
            self.link.drop_message()
            begun = message.body.get("env_state") == messages.RUNNING
            if not begun or message.episode == self._episode:
                continue
            self._episode = message.episode
            if self.link.has_newer(message.episode):  # so this one is over
                continue
            self._playing, self._stopped_at = True, None
            return Row(snapshot.picture, playing=True, first=True, snapshot=snapshot)
        return Row(snapshot.picture, playing=False, first=True, snapshot=snapshot)

    def _play(self, snapshot: Snapshot, now: float) -> Row:
        """A row of the running episode, perhaps its last."""
        assert self.link
        row = Row(snapshot.picture, playing=True, snapshot=snapshot)
        while not row.over and (message := self.link.next_message(snapshot.drawn)):
            if message.episode != self._episode:
                # A new episode means that the old one is done; its messages are for later rows.
                row = row._replace(over=True)
                break
            self.link.drop_message()
            body = message.body
            if message.method == messages.DESCRIBE:
                stopped = body.get("env_state") == messages.FROZEN
                self._stopped_at = now if stopped else None
            elif message.method == messages.REWARD:
                reward = float(body["reward"])
                row = row._replace(reward=row.reward + reward, rewards=row.rewards + bool(reward))
                if body["done"]:
                    ended = not body.get("info", {}).get("truncated", False)
                    row = row._replace(over=True, terminated=ended)
        if row.over:
            self._playing = False
            self.link.ask_reset(self._episode)
            row = row._replace(playing=False)
        return row


def observation_lag(snapshot: Snapshot, link: Link, now: float) -> float:
    """How many milliseconds ago a picture was drawn; nan where that is not known."""
    if snapshot.drawn is None:
        return float("nan")
    return stamp.since(now % stamp.PERIOD_MS, snapshot.drawn - link.skew)
