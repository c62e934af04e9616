"""Exchanges to play twice: recorded ones of a llama.cpp server, and generated ones with every kind of framing."""

import gzip
import json
import random
from pathlib import Path

from tests.parts.gate_raw import Exchange, cut

RECORDED = Path(__file__).with_name("gate_recorded.json")
STATUS = (
    b"200 OK", b"200 OK", b"200 OK", b"201 Created", b"204 No Content", b"206 Partial Content", b"302 Found",
    b"304 Not Modified", b"400 Bad Request", b"404 Not Found", b"418 I'm a teapot", b"429 Too Many Requests",
    b"500 Internal Server Error", b"503", b"599 Its Own Words",
)  # fmt: skip
LINES = (
    b"X-MiXed-CaSe: Value", b"x-lower:nospace", b"X-Tab:\tv \t", b"Set-Cookie: a=1; Path=/", b"Set-Cookie: b=2",
    b"Vary: Accept", b"X-Utf: \xc3\xa9", b"X-Empty:", b"Cache-Control: no-store", b"traceparent: 00-1-2-03",
    b"X-Long: " + b"v" * 3000, b"Access-Control-Allow-Origin: *", b"Content-Encoding: x-own",
)  # fmt: skip
PATHS = (
    "/v1/files",
    "/a%20b/%2F?x=%20y&z",
    "/v1/audio/speech",
    "/x//y/./z",
    "/generate",
    "/v1/chat/completions",
)


def recorded() -> list[Exchange]:
    """What a llama.cpp server was asked and answered."""
    rows = json.loads(RECORDED.read_text())
    made = []
    for row in rows:
        request, response = row["request"].encode("latin-1"), row["response"].encode("latin-1")
        head = response.partition(b"\r\n\r\n")[0].lower()
        framed = b"\r\ncontent-length:" in head or b"\r\ntransfer-encoding:" in head
        made.append(Exchange(row["name"], _named(request, row["name"]), (response,), to_end=not framed))
    return made


def generated(seed: int) -> Exchange:
    """One of any number."""
    rng = random.Random(seed)
    name = f"generated {seed}"
    method, lines, body = _request(rng)
    waits = bool(body) and rng.random() < 0.1
    if waits:
        lines.append("Expect: 100-continue")
    head = "\r\n".join([f"{method} {rng.choice(PATHS)} HTTP/1.1", "Host: localhost", *lines, "", ""]).encode()
    response, to_end = _response(rng, method)
    pieces = _named(head, name) + cut(body, _cuts(rng, len(body))) if body else _named(head, name)
    if not waits:
        whole = b"".join(pieces)
        pieces = cut(whole, _cuts(rng, len(whole)))
        if whole[:5] == b"HEAD ":
            pieces = (whole,)
    return Exchange(name, pieces, cut(response, _cuts(rng, len(response))), to_end)


def _named(request: bytes, name: str) -> tuple[bytes, ...]:
    first, _, rest = request.partition(b"\r\n")
    return (b"%b\r\nX-Case: %b\r\n%b" % (first, name.encode(), rest),)


def _cuts(rng: random.Random, size: int) -> list[int]:
    return [rng.randrange(size + 1) for _ in range(rng.choice((0, 0, 1, 3, 9)))]


def _request(rng: random.Random) -> tuple[str, list[str], bytes]:
    lines = [line.decode("latin-1") for line in rng.sample(LINES[:4] + LINES[5:11], rng.randrange(4))]
    kind = rng.choice(
        ("none", "json", "json", "json chunked", "binary", "binary chunked", "form", "gzip", "large")
    )
    if kind == "none":
        return rng.choice(("GET", "GET", "HEAD", "DELETE", "OPTIONS")), lines, b""
    method, media = rng.choice(("POST", "POST", "PUT", "PATCH")), "application/json"
    data = _json(rng, 400_000 if kind == "large" and rng.random() < 0.3 else 300)
    if kind.startswith("binary"):
        media, data = "application/octet-stream", rng.randbytes(rng.choice((1, 100, 70_000, 400_000)))
    elif kind == "form":
        media = "multipart/form-data; boundary=xYz"
        file = rng.randbytes(rng.choice((10, 5000)))
        parts = [b'Content-Disposition: form-data; name="model"\r\n\r\ngpt',
                 b'Content-Disposition: form-data; name="file"; filename="a"\r\n\r\n' + file]  # fmt: skip
        rng.shuffle(parts)
        data = b"".join(b"--xYz\r\n%b\r\n" % part for part in parts) + b"--xYz--\r\n"
    elif kind == "gzip":
        data = gzip.compress(data)
        lines.append("Content-Encoding: gzip")
    lines.append(f"Content-Type: {media}")
    if kind.endswith("chunked"):
        if trailers := rng.random() < 0.3:
            lines.append("Trailer: X-Sum")
        lines.append("Transfer-Encoding: chunked")
        return method, lines, _chunks(rng, data, trailers)
    lines.append(f"Content-Length: {len(data)}")
    return method, lines, data


def _json(rng: random.Random, size: int) -> bytes:
    text = "".join(rng.choices('abc \\"\u00e9\n{}[]', k=size))
    fields = {
        "model": "gpt", "messages": [{"role": "user", "content": text}], "n": 12345678901234567890, "f": 1e-7,
        "stream": rng.random() < 0.5, "x": None, "deep": {"model": "inner"},
    }  # fmt: skip
    keys = list(fields)
    rng.shuffle(keys)
    indent, ascii_ = rng.choice((None, 1)), rng.random() < 0.5
    return json.dumps({key: fields[key] for key in keys}, indent=indent, ensure_ascii=ascii_).encode()


def _chunks(rng: random.Random, data: bytes, trailers: bool) -> bytes:
    out = []
    for piece in cut(
        data, [rng.randrange(len(data) + 1) for _ in range(rng.choice((0, 1, 5, 40)))] if data else []
    ):
        size = (b"%x", b"%X", b"0%x", b'%x;a="b"')[rng.randrange(4)] % len(piece)
        out.append(b"%b\r\n%b\r\n" % (size, piece))
    out.append(b"0\r\n" + (b"X-Sum: 1\r\nX-Other:\r\n" if trailers else b"") + b"\r\n")
    return b"".join(out)


def _response(rng: random.Random, method: str) -> tuple[bytes, bool]:
    status = rng.choice(STATUS)
    lines, early = rng.sample(LINES, rng.randrange(6)), b""
    if rng.random() < 0.1:
        early = b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"
    data = rng.randbytes(rng.choice((0, 1, 500, 70_000)))
    kind = rng.choice(("length", "chunked", "events", "end"))
    if status[:3] in (b"204", b"304") or method == "HEAD":
        framing = [b"Content-Length: 7"] if status[:3] != b"204" and rng.random() < 0.5 else []
        return early + b"\r\n".join([b"HTTP/1.1 " + status, *lines, *framing, b"", b""]), not framing
    if kind == "events":
        lines.append(b"Content-Type: text/event-stream")
        data = b"".join(b'data: {"n":%d,"finish_reason":null}\n\n' % n for n in range(rng.randrange(30)))
    if kind == "length":
        lines.append(b"Content-Length: %d" % len(data))
    elif kind != "end":
        trailers = rng.random() < 0.3
        lines.append(b"Transfer-Encoding: chunked")
        data = _chunks(rng, data, trailers)
    rng.shuffle(lines)
    return early + b"\r\n".join([b"HTTP/1.1 " + status, *lines, b"", b""]) + data, kind == "end"
