"""Worlds that do not wait: desktops over VNC, played at ticks; see docs/environments.md."""
