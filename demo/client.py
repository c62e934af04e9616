"""Sends bursts of real chat requests and counts what became of them."""

import argparse
import asyncio
import itertools
import json
import time
import uuid
from dataclasses import dataclass, field

import aiohttp


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of one request. `wait_s`: until the answer's head; no `error`: it came whole."""

    id: str
    status: int
    text: str
    wait_s: float
    took_s: float
    error: str | None


@dataclass(slots=True)
class Tally:
    """Counts over many requests. A request `waited` when its answer began later than the limit given."""

    asked: int = 0
    answered: int = 0
    waited: int = 0
    longest_wait_s: float = 0.0
    errors: list[str] = field(default_factory=list)

    def add(self, answer: Answer, waited_over_s: float = 0.5) -> None:
        """Count one more answer."""
        self.asked += 1
        if answer.error is not None:
            self.errors.append(f"{answer.id}: {answer.error}")
            return
        self.answered += 1
        self.waited += answer.wait_s > waited_over_s
        self.longest_wait_s = max(self.longest_wait_s, answer.wait_s)


async def ask(
    session: aiohttp.ClientSession,
    url: str,
    model: str,
    *,
    text: str = "Hello?",
    stream: bool = True,
    limit_s: float = 120.0,
) -> Answer:
    """Send one chat request to the server at `url` (without /v1); never raises for what the server does."""
    request_id = uuid.uuid4().hex
    body = {"model": model, "stream": stream, "messages": [{"role": "user", "content": text}]}
    asked_s = time.monotonic()
    status, said, wait_s, error = 0, "", 0.0, None
    try:
        async with session.post(
            f"{url}/v1/chat/completions",
            json=body,
            headers={"x-request-id": request_id},
            timeout=aiohttp.ClientTimeout(total=limit_s),
        ) as reply:
            status, wait_s = reply.status, time.monotonic() - asked_s
            if status != 200:
                error = f"status {status}: {(await reply.text())[:300]}"
            elif stream:
                said = await _streamed_text(reply)
            else:
                said = (await reply.json())["choices"][0]["message"]["content"]
    except (aiohttp.ClientError, TimeoutError, ValueError, KeyError) as problem:
        error = f"{type(problem).__name__}: {problem}"
    return Answer(request_id, status, said, wait_s, time.monotonic() - asked_s, error)


async def _streamed_text(reply: aiohttp.ClientResponse) -> str:
    """The words of a stream of events.

    Raises:
        ValueError: it ended without its last event, or holds an error event.
    """
    said = ""
    async for line in reply.content:
        data = line.decode().removeprefix("data: ").strip()
        if data == "[DONE]":
            return said
        if line.startswith(b"data: "):
            event = json.loads(data)
            if "error" in event:
                raise ValueError(f"error event: {event['error']}")
            said += "".join(choice["delta"].get("content") or "" for choice in event["choices"])
    raise ValueError("the stream ended before [DONE]")


async def burst(url: str, model: str, count: int, *, at_once: int = 4, stream: bool = True) -> list[Answer]:
    """Send `count` requests, at most `at_once` at a time; returns their answers in the order asked."""
    places = asyncio.Semaphore(at_once)

    async def one() -> Answer:
        async with places:
            return await ask(session, url, model, stream=stream)

    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:
        return await asyncio.gather(*(one() for _ in range(count)))


async def bursts(
    url: str, model: str, *, count: int, at_once: int, every_s: float, seconds: float, tally: Tally
) -> None:
    """Send a burst every `every_s` seconds for `seconds`, counting into `tally` as the answers come.

    A burst under way is finished, never cut: every request asked is answered or is an error.
    """
    begun_s = time.monotonic()
    for number in itertools.count():
        due_s = begun_s + number * every_s
        if due_s - begun_s >= seconds:
            return
        await asyncio.sleep(max(0.0, due_s - time.monotonic()))
        for answer in await burst(url, model, count, at_once=at_once):
            tally.add(answer)


def main() -> int:
    """Send the bursts, print the counts as one JSON line; exit code 0 only if every request was answered."""
    parser = argparse.ArgumentParser(
        prog="python -m demo.client", description="Bursts of real chat requests."
    )
    parser.add_argument("--url", required=True, help="of the gate, without /v1")
    parser.add_argument("--model", required=True)
    parser.add_argument("--count", type=int, default=4, help="requests in a burst")
    parser.add_argument("--at-once", type=int, default=4)
    parser.add_argument("--every-s", type=float, default=8.0, metavar="S")
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args()
    tally = Tally()
    work = bursts(
        options.url,
        options.model,
        count=options.count,
        at_once=options.at_once,
        every_s=options.every_s,
        seconds=options.seconds,
        tally=tally,
    )
    asyncio.run(work)
    counts = {
        "asked": tally.asked,
        "answered": tally.answered,
        "waited": tally.waited,
        "errors": tally.errors,
    }
    print(json.dumps({**counts, "longest_wait_s": round(tally.longest_wait_s, 3)}))
    return 0 if tally.asked == tally.answered else 1


if __name__ == "__main__":
    raise SystemExit(main())
