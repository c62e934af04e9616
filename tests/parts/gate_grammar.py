"""Requests from a grammar of HTTP/1 framing: mostly right, each part now and then in one of the ways to get it wrong."""

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

END = b"GET /end HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
GOOD, ODD = 0.88, 0.12

METHODS = (b"POST", b"GET", b"PUT", b"DELETE", b"PATCH", b"OPTIONS", b"HEAD")
ODD_METHODS = (
    b"post", b"P OST", b"", b"POST\t", b"CONNECT", b"TRACE", b"PO\0ST", b"FOO", b"M-SEARCH", b" POST", b"PRI",
    b"POST\x0b", b"G\xc3\x89T", b"POST,", b"\r\nPOST", b"\nPOST",
)  # fmt: skip
TARGETS = (b"/v1/x", b"/v1/x?a=b&c=%20d", b"/a%20b/c", b"/x//y", b"/", b"/x?y#z", b"http://localhost/v1/x")
ODD_TARGETS = (
    b"", b"x", b"*", b"/a b", b"/\x01", b"/\xc3\xa9", b"/%zz", b"/%", b"/%00", b"/../x", b"/a/../../x", b"/%2e%2e/x",
    b"/x\ty", b"http://", b"http:///x", b"//localhost/x", b"/x\\y", b"/.", b"/x\x7f", b"ftp://localhost/x", b"/a?b c",
    b"http://localhost:1:2/x", b"http://user@localhost/x", b"?x=1", b"/\x00",
)  # fmt: skip
VERSIONS = (b"HTTP/1.1", b"HTTP/1.1", b"HTTP/1.1", b"HTTP/1.0")
ODD_VERSIONS = (
    b"HTTP/1.2", b"HTTP/2.0", b"HTTP/0.9", b"", b"http/1.1", b"HTTP/1.1 ", b"HTTP/1.10", b"HTTP/01.1", b"HTTP/1",
    b"HTTP/1,1", b" HTTP/1.1", b"HTTP/1.1\t", b"HTTP/1.1 x", b"HTTPS/1.1", b"HTTP/1.\x311",
)  # fmt: skip
HOSTS = (b"Host: localhost", b"host: localhost:8491", b"Host:localhost", b"HOST: 127.0.0.1 ")
ODD_HOSTS = (
    b"Host: ", b"Host: a b", b"Host: localhost\r\nHost: localhost", b"Host : localhost", b"Host: local\0host",
    b"Host: localhost,localhost", b"Host: localhost/x", b"Host: local\thost", b" Host: localhost", b"Host: [::1]",
    b"Host: localhost:x", b"Host: user@localhost", b"Host: [::1", b"Host: ..", b"X: 1\r\n Host: localhost", b"Host: :80",
)  # fmt: skip
PLAIN = (
    b"X-A: 1", b"Accept: */*", b"X-Empty:", b"X-Long: " + b"a" * 300, b"X-Tab:\tv\t", b"Cookie: a=b; c=d",
    b"Connection: keep-alive", b"Content-Type: application/octet-stream", b"X-Utf: \xc3\xa9", b"Connection: X-A",
)  # fmt: skip
ODD_PLAIN = (
    b"X A: 1", b": 1", b"X-A", b" folded", b"\tfolded", b"X-A: \0", b"X-A: \x01", b"X\0A: 1", b"X-A\t: 1", b"X(A): 1",
    b"X-A: 1\nX-B: 2", b"X-A: 1\rX-B: 2", b"X_A: 1", b"\xc3\xa9: 1", b"Content_Length: 3", b"X-A: a\x7fb", b"@: 1",
    b"Connection: close, keep-alive", b"Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAA",
    b"Upgrade: websocket", b"Expect: 100-continue", b"Expect: 200-ok", b"Connection: Transfer-Encoding",
    b"Connection: Content-Length", b"Trailer: X-T", b"TE: trailers", b"Connection: \0", b"Keep-Alive: 5",
)  # fmt: skip
CODINGS = (b"Transfer-Encoding: chunked", b"transfer-encoding:chunked", b"Transfer-Encoding: Chunked ")
ODD_CODINGS = (
    b"Transfer-Encoding: gzip, chunked", b"Transfer-Encoding: chunked, gzip", b"Transfer-Encoding: identity",
    b"Transfer-Encoding: chunked, chunked", b"Transfer-Encoding: xchunked", b"Transfer-Encoding: chunked;q=1",
    b"Transfer-Encoding: ,chunked", b"Transfer-Encoding: chunked,", b"Transfer-Encoding:\x0bchunked",
    b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity", b"Transfer-Encoding:\r\n chunked",
    b"Transfer-Encoding: identity\r\nTransfer-Encoding: chunked", b"Transfer-Encoding : chunked",
    b"Transfer_Encoding: chunked", b"Transfer-Encoding: \"chunked\"", b"Transfer-Encoding: chun\tked",
    b"Transfer-Encoding:", b"Transfer-Encoding: chunked\0", b" Transfer-Encoding: chunked",
    b"X: 1\nTransfer-Encoding: chunked", b"Transfer-Encoding: chunked\r\nContent-Length: 3",
    b"Content-Length: 3\r\nTransfer-Encoding: chunked", b"Content-Length: 0\r\nTransfer-Encoding: chunked",
)  # fmt: skip
ODD_LENGTHS = (
    b"Content-Length: -1", b"Content-Length: +%d", b"Content-Length: 0x%d", b"Content-Length: %d,%d",
    b"Content-Length: %d\r\nContent-Length: %d", b"Content-Length: %d\r\nContent-Length: 0", b"Content-Length: ",
    b"Content-Length: %d.0", b"Content-Length: 1e1", b"Content-Length : %d", b"Content-Length: 00%d",
    b"Content-Length:\r\n %d", b"Content-Length: %d \x0b", b"Content-Length: 18446744073709551617", b"Content-Length: %d a",
    b"Content-Length: \xd9\xa3", b"\nContent-Length: %d", b"Content-Length:%d\0", b"Content-Length: 1_0",
)  # fmt: skip
ODD_SIZES = (
    b"0x%x", b"+%x", b"-%x", b" %x", b"%x ", b"%x\t", b"%x;", b"%x;a=b", b'%x;a="b\r\nc"', b"%x ;a", b"\n%x", b"%x,0",
    b"00000000000000000000%x", b"FFFFFFFFFFFFFFFF%x", b"%xg", b"", b"%x\0", b"%x;a\nb", b"%x\x0b", b"_%x", b"%x_0",
)  # fmt: skip
ODD_TRAILERS = (
    b"Content-Length: 5\r\n", b"X-T: 1\nX-U: 2\r\n", b" folded\r\n", b"X-T : 1\r\n", b"no colon\r\n", b": 1\r\n",
    b"X-T: \0\r\n", b"Transfer-Encoding: chunked\r\n", b"X\0: 1\r\n", b"Host: evil\r\n", b"X T: 1\r\n",
)  # fmt: skip
ODD_ENDS = (b"\n", b"\r", b"\r\r\n", b"\n\r", b"\r\n\r\n", b"")
DATA = (
    b"hello",
    b"a",
    b"0\r\n\r\n",
    b"GET /inner HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"\r\n",
    b"x" * 200,
    b"\0\xff",
)


class Grammar:
    """One seed. `odd` is how often a part is wrong."""

    def __init__(self, seed: int, odd: float = ODD) -> None:
        self.rng, self.odd = random.Random(seed), odd

    def stream(self) -> bytes:
        """What one client sends: one to three requests, and a last one that asks for the end."""
        return b"".join(self.request() for _ in range(self.rng.choice((1, 1, 1, 2, 3)))) + END

    def request(self) -> bytes:
        """One request."""
        rows = [b" ".join((self.pick(METHODS, ODD_METHODS), self.pick(TARGETS, ODD_TARGETS), self.version()))]
        if not self.is_odd():
            rows.append(self.pick(HOSTS, ODD_HOSTS))
        for _ in range(self.rng.choice((0, 0, 1, 2, 3))):
            rows.append(self.pick(PLAIN, ODD_PLAIN))
        framing, body = self.body()
        if framing:
            rows.insert(self.rng.randrange(1, len(rows) + 1), framing)
        return b"".join(row + self.end() for row in rows) + self.end() + body

    def version(self) -> bytes:
        return self.pick(VERSIONS, ODD_VERSIONS)

    def body(self) -> tuple[bytes, bytes]:
        """The framing header lines, and what follows the head."""
        kind = self.rng.choice(("none", "length", "chunked", "chunked"))
        data = self.rng.choice(DATA)
        if kind == "none":
            return b"", (data if self.is_odd() else b"")
        if kind == "chunked":
            return self.pick(CODINGS, ODD_CODINGS), self.chunks()
        length = len(data) + (self.rng.choice((-1, 1, 5)) if self.is_odd() else 0)
        if not self.is_odd():
            return b"Content-Length: %d" % max(0, length), data
        row = self.rng.choice(ODD_LENGTHS)
        return row.replace(b"%d", b"%d" % max(0, length)), data

    def chunks(self) -> bytes:
        """A chunked body."""
        out = [self.chunk(self.rng.choice(DATA)) for _ in range(self.rng.choice((0, 1, 1, 2, 3)))]
        out.append(self.pick((b"0", b"0", b"000", b"0;a=b"), (b"", b"0x0", b" 0", b"-0", b"0 ")) + self.end())
        if self.rng.random() < 0.2:
            out.append(self.pick((b"X-T: 1\r\n", b"X-T:\r\nX-U: 2\r\n"), ODD_TRAILERS))
        return b"".join(out) + self.end()

    def chunk(self, data: bytes) -> bytes:
        size = len(data) + (self.rng.choice((-1, 1, 7)) if self.is_odd() else 0)
        text = self.pick((b"%x", b"%X", b"0%x", b"%x;ext=1"), ODD_SIZES)
        text = text.replace(b"%x", b"%x" % max(0, size)).replace(b"%X", b"%X" % max(0, size))
        return text + self.end() + data + self.end()

    def end(self) -> bytes:
        return self.pick((b"\r\n",), ODD_ENDS) if self.rng.random() < 0.3 else b"\r\n"

    def is_odd(self) -> bool:
        return self.rng.random() < self.odd

    def pick(self, good: Sequence[T], odd: Sequence[T]) -> T:
        """One of the good ones, now and then one of the others."""
        return self.rng.choice(odd if self.is_odd() else good)
