"""`print` and the logging module inside a component: both become log lines of the host.

A component has no standard output. Whole lines go to the host as they are
written; what is left of a line goes when the invocation ends.
"""

import io
import logging
import sys
from collections.abc import Callable
from typing import Any, TextIO

from styx.determinism import invocation
from styx.errors import safe_text

LINE_BYTES_MAX = 16 << 10

_Log = Callable[[str, str], None]


class Stream(io.TextIOBase):
    """Standard output or error. While modules are imported it writes to the builder's."""

    def __init__(self, log: _Log, level: str, original: TextIO) -> None:
        self._log = log
        self._level = level
        self._original = original
        self._open_line = ""

    def write(self, text: str) -> int:
        """Takes text; every finished line becomes a log line."""
        if not invocation.is_running:
            return self._original.write(text)
        if not self._open_line and text and not text.endswith("\n"):
            invocation.at_end(self._finish_line)
        *lines, self._open_line = (self._open_line + text).split("\n")
        for line in lines:
            self._emit(line)
        if len(self._open_line) > LINE_BYTES_MAX:
            self._finish_line()
        return len(text)

    def flush(self) -> None:
        """Does nothing while an invocation runs: lines are sent whole."""
        if not invocation.is_running:
            self._original.flush()

    def writable(self) -> bool:
        """Always."""
        return True

    @property
    def encoding(self) -> str:
        """UTF-8, as everything here."""
        return "utf-8"

    def _finish_line(self) -> None:
        line, self._open_line = self._open_line, ""
        self._emit(line)

    def _emit(self, line: str) -> None:
        if line:
            self._log(self._level, safe_text(line, LINE_BYTES_MAX))


class LogHandler(logging.Handler):
    """Sends records of the logging module to the host."""

    def __init__(self, log: _Log) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Sends one record."""
        try:
            text = self.format(record)
        except Exception:
            self.handleError(record)
            return
        if not invocation.is_running:
            print(text, file=sys.stderr)
            return
        number = record.levelno
        level = "error" if number >= 40 else "warn" if number >= 30 else "info" if number >= 20 else "debug"
        self._log(level, safe_text(text, LINE_BYTES_MAX))


def install(log: _Log) -> None:
    """Redirects standard output, standard error and the root logger. For components only."""
    sys.stdout = Stream(log, "info", sys.stdout)
    sys.stderr = Stream(log, "error", sys.stderr)
    handler = LogHandler(log)
    logging.root.addHandler(handler)
    logging.root.setLevel(logging.INFO)
    configure = logging.basicConfig

    def basic_config(**options: Any) -> None:
        """As in the standard library, but a handler that is there already is configured, not kept as it is."""
        replaces = options.get("force") or any(name in options for name in ("handlers", "filename", "stream"))
        if replaces or logging.root.handlers != [handler]:
            configure(**options)
            return
        style = options.get("style", "%")
        if "format" in options or "datefmt" in options:
            handler.setFormatter(logging.Formatter(options.get("format"), options.get("datefmt"), style))
        if options.get("level") is not None:
            logging.root.setLevel(options["level"])

    logging.basicConfig = basic_config
