"""Listening sockets: taken from systemd, from a gate that outlived its parent, or bound."""

import contextlib
import os
import socket
import sys
from collections.abc import Mapping, MutableMapping

from headway.errors import HeadwayError

BACKLOG = 4096
FIRST_GIVEN_FD = 3
Place = tuple[str, int]


class PortTaken(HeadwayError):
    """Another program listens where the gate should."""

    code = "port_taken"
    http_status = 409


def given(environ: MutableMapping[str, str], listen: Mapping[str, Place]) -> dict[str, int]:
    """The sockets that systemd opened for this process: name -> descriptor.

    A socket unit says the name with `FileDescriptorName=` ("front" or a service's); without one of these names the
    address decides. What is not asked for is closed. The variables are taken out: they are not for our children.
    """
    pid, count = environ.pop("LISTEN_PID", ""), environ.pop("LISTEN_FDS", "")
    names = environ.pop("LISTEN_FDNAMES", "").split(":")
    if pid != str(os.getpid()) or not count.isdigit():
        return {}
    found: dict[str, int] = {}
    for number in range(int(count)):
        fd = FIRST_GIVEN_FD + number
        os.set_inheritable(fd, False)
        name = names[number] if number < len(names) else ""
        if name not in listen:
            name = next((name for name, wanted in listen.items() if wanted[1] and is_at(fd, wanted)), "")
        if name and name not in found:
            found[name] = fd
        else:
            print(
                f"systemd gave a socket that no service listens on: {names[number : number + 1]}",
                file=sys.stderr,
            )
            os.close(fd)
    return found


def keep(fds: Mapping[str, int]) -> str:
    """Let these stay open over an exec; `kept` reads the answer on the other side."""
    for fd in fds.values():
        os.set_inheritable(fd, True)
    return ",".join(f"{name}={fd}" for name, fd in fds.items())


def kept(text: str, listen: Mapping[str, Place]) -> dict[str, int]:
    """The sockets that stayed open: name -> descriptor. One that is not where it's asked to be now is closed.

    A Unix socket came from systemd: it's wherever its unit says.
    """
    found: dict[str, int] = {}
    for name, _, number in (pair.rpartition("=") for pair in text.split(",") if pair):
        fd = int(number)
        os.set_inheritable(fd, False)
        if name in listen and (is_at(fd, listen[name]) or place_of(fd)[1] == 0):
            found[name] = fd
        else:
            os.close(fd)
    return found


def bind(name: str, place: Place) -> int:
    """Listen. Raises PortTaken."""
    host, port = place
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
        sock.listen(BACKLOG)
    except OSError as error:
        sock.close()
        raise PortTaken(
            f"{name}: cannot listen on {host}:{port} ({error.strerror}). Stop the program that listens there, or "
            f"choose another port in the config.",
            name=name, host=host, port=port,
        ) from None  # fmt: skip
    return sock.detach()


def place_of(fd: int) -> Place:
    """Where a listener is; a Unix socket is ("path", 0)."""
    with socket.socket(fileno=os.dup(fd)) as sock:
        name = sock.getsockname()
    return (str(name[0]), int(name[1])) if isinstance(name, tuple) else (str(name), 0)


def is_at(fd: int, wanted: Place) -> bool:
    """Whether a listener is where it is asked to be; a port of 0 is any."""
    try:
        host, port = place_of(fd)
    except OSError:
        return False
    return host == wanted[0].replace("localhost", "127.0.0.1") and wanted[1] in (0, port)


def notify(address: str, state: str) -> None:
    """Tell systemd, when it asked for that (`address` is NOTIFY_SOCKET, empty without)."""
    if not address:
        return
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.connect("\0" + address[1:] if address.startswith("@") else address)
        sock.send(state.encode())
