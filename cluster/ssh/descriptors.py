"""Open files that connections to many hosts need."""

import resource

from user_error import UserError

# A connection, and while it is made an agent's and a file with a key.
FOR_EACH, SPARE = 3, 100


def make_room(hosts: int) -> None:
    """Raises this process's limit if so many hosts need it; a ``UserError`` if it cannot."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = SPARE + FOR_EACH * hosts
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise UserError(
            f"{hosts} hosts take up to {needed} open files, and this machine allows a process "
            f"{hard} (ulimit -Hn). Raise that limit, or use fewer hosts."
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
