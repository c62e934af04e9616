"""nginx as the judge of what is well-formed: a real one before a strict reader, asked one stream at a time."""

import contextlib
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from tests.parts.gate_strict import Seen, Strict
from tests.processes import free_port

LIMIT_S = 20.0
CONFIG = """
daemon off;
master_process off;
pid {home}/pid;
error_log {home}/error.log info;
events {{ worker_connections 512; }}
http {{
    access_log off;
    client_body_temp_path {home}/body; proxy_temp_path {home}/proxy; fastcgi_temp_path {home}/fastcgi;
    uwsgi_temp_path {home}/uwsgi; scgi_temp_path {home}/scgi;
    client_max_body_size 0;
    large_client_header_buffers 4 64k;
    keepalive_requests 1000000;
    lingering_close off;
    server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_pass http://127.0.0.1:{upstream};
            proxy_http_version 1.1;
            proxy_set_header Host localhost;
            proxy_ignore_client_abort on;
            proxy_next_upstream off;
        }}
    }}
}}
"""


def find() -> str | None:
    """The program; None: it isn't installed."""
    return shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin:/sbin")


class Oracle:
    """One nginx. `ask` sends a stream and says which requests reached the server behind it."""

    def __init__(self, home: Path, program: str) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._seen: list[Seen] = []
        self.port = free_port()
        text = CONFIG.format(home=home, port=self.port, upstream=self._listener.getsockname()[1])
        (home / "nginx.conf").write_text(text)
        argv = [program, "-p", str(home), "-c", str(home / "nginx.conf"), "-e", str(home / "error.log")]
        self._process = subprocess.Popen(argv)
        threading.Thread(target=self._serve, daemon=True).start()
        end_s = time.monotonic() + LIMIT_S
        while True:
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", self.port)).close()
                return
            assert time.monotonic() < end_s and self._process.poll() is None, "nginx did not start"
            time.sleep(0.01)

    def ask(self, stream: bytes) -> tuple[list[Seen], bytes]:
        """The requests that arrived, and what the client read."""
        self._seen = []
        with socket.create_connection(("127.0.0.1", self.port), timeout=LIMIT_S) as sock:
            got = b""
            with contextlib.suppress(OSError):
                sock.sendall(stream)
                sock.shutdown(socket.SHUT_WR)
                while data := sock.recv(65536):
                    got += data
        return list(self._seen), got

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection:
                strict = Strict(self._seen)
                with contextlib.suppress(OSError):
                    while not strict.broken and (data := connection.recv(65536)):
                        answers = strict.feed(data)
                        if answers:
                            connection.sendall(answers[0])  # nginx asks for one, and for the end
                            break


@contextlib.contextmanager
def oracle(home: Path, program: str) -> Iterator[Oracle]:
    made = Oracle(home, program)
    try:
        yield made
    finally:
        made.close()
