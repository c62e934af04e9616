"""A vLLM server without a model: the routes, words and traps of the real one's sleep, in a process on loopback.

As in the real one, `/sleep`, `/wake_up`, `/is_sleeping` and `/collective_rpc` are there only with VLLM_SERVER_DEV_MODE=1,
parameters are in the query, sleep frees nothing without `--enable-sleep-mode`, the memory belongs to a child process, and
every 200 is given whether or not something happened. `--version` chooses what old ones did: below 0.33 bodies are empty,
below 0.18 a request while asleep kills the engine, below 0.10 there is no word for its sleep. `--trap` is one of:

- `keeps`: says that it sleeps and keeps its memory; `late:S`: lets it go S seconds after its answer
- `sleep-fails`: 500, and the scheduler stays paused; `dies-asleep`: 200, and then the engine dies
- `wake-hangs`: no answer for ever; `wake-fails`: 500 with half of the memory taken

`--record FILE` gets `begin ID`, `end ID` or `gone ID` for each request, `asleep ID` for one that came to a sleeper, and
`call PATH?QUERY` for each order.
"""

import argparse
import asyncio
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

from aiohttp import web

from demo.sim_device import FakeOutOfMemory, parse_size, split_devices
from tests.parts.fake_vllm_engine import Card, Engine
from tests.parts.fake_vllm_http import routes

DIES_AFTER_S = 0.2  # the real watchdog takes five seconds


def version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))


def _profile(options: argparse.Namespace, card: Card) -> str | None:
    """Why it cannot start, measured as the real one does: by what the whole device shows."""
    others = card.others() // max(1, len(options.device))
    if options.total is not None and options.total - others < options.bytes:
        return (
            "ValueError: Free memory on device on startup is less than desired GPU memory utilization: "
            f"{options.total - others} of {options.bytes} bytes."
        )
    return None


async def _run(options: argparse.Namespace, card: Card) -> int:
    ending = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ending.set)
    with suppress(TimeoutError):
        await asyncio.wait_for(ending.wait(), options.start_delay)
    if ending.is_set():
        return 0
    if no := _profile(options, card):
        print(no, file=sys.stderr, flush=True)
        return 1
    card.hold(options.residue)
    before = card.others()
    await asyncio.sleep(options.profile_s)
    if card.others() < before:
        print(
            "AssertionError: Error in memory profiling. Others released memory.", file=sys.stderr, flush=True
        )
        return 1
    card.hold(options.bytes)
    engine = Engine(options, card)
    runner = web.AppRunner(
        routes(engine), handler_cancellation=True, keepalive_timeout=5.0, shutdown_timeout=0.1
    )
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", options.port).start()
    print("Application startup complete.", flush=True)
    while not ending.is_set() and not engine.dead.is_set():
        if not card.lives():
            engine.dead.set()
        with suppress(TimeoutError):
            await asyncio.wait_for(ending.wait(), 0.05)
    if engine.dead.is_set():
        await asyncio.sleep(DIES_AFTER_S)
    await runner.cleanup()
    return 1 if engine.dead.is_set() else 0


def main() -> int:
    """Serve until SIGTERM, SIGINT or the end of the engine."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.parts.fake_vllm", description="vLLM without a model."
    )
    parser.add_argument("--port", type=int, required=True, help="on 127.0.0.1")
    parser.add_argument("--served-model-name", default="tiny")
    parser.add_argument("--enable-sleep-mode", action="store_true")
    parser.add_argument("--version", type=version, default=(0, 33, 0), metavar="N.N.N")
    parser.add_argument("--trap", default="", metavar="NAME")
    parser.add_argument("--record", type=Path, metavar="FILE")
    parser.add_argument("--reports", type=Path, metavar="DIR")
    parser.add_argument("--device", type=split_devices, default=("sim0",), metavar="NAME[,NAME]")
    parser.add_argument("--bytes", type=parse_size, default=0, metavar="SIZE", help="awake, per device")
    parser.add_argument("--residue", type=parse_size, default=0, metavar="SIZE", help="asleep, per device")
    parser.add_argument("--total", type=parse_size, metavar="SIZE", help="of each device; left out: endless")
    for name in ("start-delay", "profile-s", "sleep-s", "wake-s", "reload-s"):
        parser.add_argument(f"--{name}", type=float, default=0.0, metavar="S")
    options = parser.parse_args()
    options.dev_mode = os.environ.get("VLLM_SERVER_DEV_MODE") == "1"
    card = Card(options)
    try:
        return asyncio.run(_run(options, card))
    except FakeOutOfMemory as error:
        print(f"torch.OutOfMemoryError: {error}", file=sys.stderr, flush=True)
        return 1
    finally:
        card.end()


if __name__ == "__main__":
    sys.exit(main())
