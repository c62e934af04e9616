"""`headway run` as people use it: in a pipe, on a terminal, and the programs they start with it."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
from pathlib import Path

from tests.e2e.stack import LIMIT_S, Row, Stack
from tests.parts.programs import ROOT
from tests.processes import TOKEN
from tests.waiting import wait_for

HEADWAY = [sys.executable, "-m", "headway.cli.main"]


def program(stack: Stack, size: str = "0", *options: object) -> list[str]:
    """A visitor that holds so much."""
    command = [
        sys.executable,
        "-m",
        "tests.parts.visitor",
        "--reports",
        stack.reports,
        "--bytes",
        size,
        *options,
    ]
    return [str(word) for word in command]


def environment(stack: Stack, **more: str) -> dict[str, str]:
    """Of a person on this machine; what he starts is ended with the stack."""
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    plain = {name: value for name, value in os.environ.items() if not name.startswith("HEADWAY_")}
    return {**plain, "PYTHONPATH": paths, "NO_COLOR": "1", TOKEN: stack.token, **more}


class Visit:
    """One `headway WORDS` in the background, its output in files."""

    def __init__(self, stack: Stack, *words: object, **env: str) -> None:
        self._stack = stack
        number = len(list(stack.home.glob("visit*.out")))
        self._out, self._err = (stack.home / f"visit{number}.{end}" for end in ("out", "err"))
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.child = subprocess.Popen(
                [*HEADWAY, "--home", str(stack.home), *map(str, words)],
                env=environment(stack, **env),
                cwd=stack.home,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self.child.pid

    @property
    def said(self) -> str:
        """What headway said."""
        return self._err.read_text()

    @property
    def printed(self) -> str:
        """What the command printed."""
        return self._out.read_text()

    def command_pid(self) -> int:
        """Of the command, once it holds its memory."""
        found = self._stack.wait(lambda: re.search(r"holds (\d+)", self.printed), f"the command; {self.said}")
        return int(found[1])

    def ends(self) -> int:
        """Its exit code."""
        self._stack.wait(lambda: self.child.poll() is not None, f"the end of the visit; {self.said}")
        return int(self.child.returncode)

    def shows(self, words: str) -> None:
        """Wait until the command printed that."""
        self._stack.wait(lambda: words in self.printed, f"{words!r} in {self.printed!r}; {self.said}")


def lease(stack: Stack, target: str) -> Row:
    """The row of a lease."""
    found: Row = stack.api(f"/api/v1/leases/{target}")
    return found


def wait_lease(stack: Stack, target: str, *states: str, limit_s: float = LIMIT_S) -> Row:
    """Wait until a lease (id or name) is in one of the states; returns its row."""

    def seen() -> Row | None:
        row = stack.tried(lambda: lease(stack, target))
        return row if row is not None and row["state"] in states else None

    return stack.wait(seen, f"{target} in {' or '.join(states)}", limit_s)


class Terminal:
    """A shell with job control on a terminal of its own."""

    def __init__(self, stack: Stack, home: Path) -> None:
        env = environment(stack, PS1="ready> ", TERM="dumb", HISTFILE="")
        self.pid, self._tty = pty.fork()
        if not self.pid:
            os.chdir(home)
            os.execve("/bin/bash", ["bash", "--norc", "--noediting", "-i"], env)
        self.shown = ""
        self.shows("ready> ")

    def types(self, keys: str) -> None:
        """Press keys; what was shown before is forgotten."""
        self.shown = ""
        os.write(self._tty, keys.encode())

    def resizes(self, lines: int, columns: int) -> None:
        """Change the window."""
        fcntl.ioctl(self._tty, termios.TIOCSWINSZ, struct.pack("4H", lines, columns, 0, 0))

    def shows(self, words: str) -> None:
        """Wait until that is on the screen."""

        def look() -> bool:
            while select.select([self._tty], [], [], 0)[0]:
                try:
                    data = os.read(self._tty, 4096)
                except OSError:  # its last process ended
                    break
                self.shown += data.decode(errors="replace").replace("\r\n", "\n")
            return words in self.shown

        try:
            wait_for(look, LIMIT_S, f"{words!r} on the terminal")
        except AssertionError as error:
            raise AssertionError(f"{error}; shown was {self.shown!r}") from None

    def close(self) -> None:
        os.close(self._tty)
