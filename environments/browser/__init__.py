"""Web pages as levels, in Chromium without a window; see docs/environments.md."""
