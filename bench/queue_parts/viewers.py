"""People who look: `python -m bench.queue_parts.viewers SOCKET COUNT` reads that many event streams until SIGTERM.

Prints at its end, as JSON, how many bytes and batches all of them got.
"""

from __future__ import annotations

import json
import selectors
import signal
import socket
import sys
from typing import NoReturn

ASK = b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n"


def main() -> None:
    path, count = sys.argv[1], int(sys.argv[2])
    got = {"bytes": 0, "batches": 0}

    def end(*_: object) -> NoReturn:
        print(json.dumps(got), flush=True)
        raise SystemExit(0)

    signal.signal(signal.SIGTERM, end)
    with selectors.DefaultSelector() as selector:
        for _ in range(count):
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            sock.connect(path)
            sock.sendall(ASK)
            selector.register(sock, selectors.EVENT_READ)
        while True:
            for key, _mask in selector.select():
                assert isinstance(key.fileobj, socket.socket)
                data = key.fileobj.recv(1 << 18)
                got["bytes"] += len(data)
                got["batches"] += data.count(b"\nid: ")


if __name__ == "__main__":
    main()
