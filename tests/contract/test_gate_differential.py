"""500 exchanges on raw sockets, each straight to a server and through the gate: both sides read the same bytes."""

import asyncio
import gzip
import json
from collections.abc import Sequence

import pytest

from tests.parts.gate_exchanges import generated, recorded
from tests.parts.gate_raw import Exchange, Message, Server, ask, gate, split

pytestmark = pytest.mark.contract

EXCHANGES = [*recorded(), *map(generated, range(500))][:500]
AT_ONCE = 16


async def play(exchanges: Sequence[Exchange], port: int) -> list[Message]:
    """Every exchange at this port; the answers."""
    room = asyncio.Semaphore(AT_ONCE)

    async def one(exchange: Exchange) -> Message:
        async with room:
            try:
                return await ask(port, exchange)
            except (AssertionError, OSError, TimeoutError, asyncio.IncompleteReadError) as error:
                raise AssertionError(f"{exchange.name}: {error!r}") from error

    return await asyncio.gather(*map(one, exchanges))


async def both(
    exchanges: Sequence[Exchange], model: str | None, front: bool
) -> list[tuple[Exchange, Message, Message, Message, Message]]:
    """Each exchange with what the server got straight and through the gate, and what the client did."""
    server = Server(exchanges)
    async with server.listening() as port:
        straight = await play(exchanges, port)
        got, server.got = server.got, {}
        async with gate(port, model) as (door, own):
            through = await play(exchanges, door if front else own)
        names = [exchange.name.encode() for exchange in exchanges]
        seen = [(got[name], server.got[name]) for name in names]
    return [(e, *pair, a, b) for e, pair, a, b in zip(exchanges, seen, straight, through, strict=True)]


async def test_both_sides_of_500_exchanges_read_the_same_bytes() -> None:
    assert len(EXCHANGES) == 500
    different = []
    for exchange, asked, asked_through, answered, answered_through in await both(
        EXCHANGES, None, front=False
    ):
        if asked.end_to_end() != asked_through.end_to_end():
            different.append((exchange.name, "request", asked, asked_through))
        if answered.end_to_end() != answered_through.end_to_end():
            different.append((exchange.name, "answer", answered, answered_through))
    assert not different, f"{len(different)} differ, the first: {different[0]}"


def named_again(message: Message) -> object:
    """A request's body with the caller's model in place of the server's, whatever its framing."""
    body = message.body
    if message.named(b"transfer-encoding") is not None:
        out, rest = b"", body
        while size := int(rest.partition(b"\r\n")[0].partition(b";")[0], 16):
            first = rest.index(b"\r\n") + 2
            out, rest = out + rest[first : first + size], rest[first + size + 2 :]
        body = out
    if message.named(b"content-encoding") == b"gzip":
        body = gzip.decompress(body)
    if message.named(b"content-type") == b"application/json" and body:
        return [(k, "gpt" if k == "model" else v) for k, v in json.loads(body, object_pairs_hook=list)]
    return body.replace(b"\r\n\r\norg/real\r\n", b"\r\n\r\ngpt\r\n")


def passing(message: Message) -> list[bytes]:
    changed = (
        b"content-length",
        b"transfer-encoding",
        b"content-encoding",
        b"trailer",
        b"host",
        b"x-request-id",
    )
    return [line for line in message.lines if split(line)[0] not in (*changed, b"expect", b"connection")]


@pytest.mark.parametrize("front", (False, True), ids=("port", "front door"))
async def test_of_a_renamed_model_nothing_else_changes(front: bool) -> None:
    chosen = [
        exchange
        for exchange in EXCHANGES
        if (b"json" in b"".join(exchange.request) or b"multipart" in exchange.request[0])
        and b"POST /v1/chat/completions" in exchange.request[0]
        and b'"model":' in b"".join(exchange.request).replace(b" ", b"")
    ]
    assert len(chosen) >= 20
    for exchange, asked, asked_through, answered, answered_through in await both(chosen, "org/real", front):
        assert asked.start == asked_through.start
        assert passing(asked) == passing(asked_through), exchange.name
        assert named_again(asked) == named_again(asked_through), exchange.name
        assert b"org/real" in asked_through.body, exchange.name
        assert answered.end_to_end() == answered_through.end_to_end(), exchange.name
