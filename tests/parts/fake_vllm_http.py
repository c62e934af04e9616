"""The HTTP side of the fake vLLM server: what its routes answer, in vLLM's shapes."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from aiohttp import web

from tests.parts.fake_vllm_engine import Engine, Failed

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
STATES = ("awake", "weights_offloaded", "discard_all")
GARBAGE = "!!!!"
ENGINES = 2  # as with data parallelism: each has samples of its own


def routes(engine: Engine) -> web.Application:
    """All routes that this version, environment and flags have."""
    served, asked, orders = Probes(engine), Inference(engine), Orders(engine)
    app = web.Application()
    app.router.add_get("/health", served.health)
    app.router.add_get("/metrics", served.metrics)
    app.router.add_get("/version", served.version)
    app.router.add_get("/v1/models", served.models)
    app.router.add_post("/v1/completions", asked.answer)
    app.router.add_post("/v1/chat/completions", asked.answer)
    if engine.options.dev_mode:
        app.router.add_post("/sleep", orders.sleep)
        app.router.add_post("/wake_up", orders.wake_up)
        app.router.add_post("/collective_rpc", orders.collective_rpc)
        if engine.options.version >= (0, 10):
            app.router.add_get("/is_sleeping", orders.is_sleeping)
    return app


def error(status: int, kind: str, message: str) -> web.Response:
    """An error in vLLM's shape."""
    body = {"error": {"message": message, "type": kind, "param": None, "code": status}}
    return web.json_response(body, status=status)


def note(engine: Engine, step: str, what: str) -> None:
    """One line in the record."""
    if engine.options.record is not None:
        with open(engine.options.record, "a") as record:
            record.write(f"{step} {what}\n")


class Probes:
    """What the front process answers by itself, asleep or not."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    async def health(self, _: web.Request) -> web.StreamResponse:
        return web.Response(status=503 if self.engine.dead.is_set() else 200)

    async def version(self, _: web.Request) -> web.StreamResponse:
        return web.json_response({"version": ".".join(map(str, self.engine.options.version))})

    async def models(self, _: web.Request) -> web.StreamResponse:
        name = self.engine.options.served_model_name
        card = {"id": name, "object": "model", "created": 0, "owned_by": "vllm", "root": name, "parent": None}
        return web.json_response({"object": "list", "data": [{**card, "max_model_len": 4096}]})

    async def metrics(self, _: web.Request) -> web.StreamResponse:
        return web.Response(text="\n".join(self._samples()) + "\n", content_type="text/plain")

    def _samples(self) -> list[str]:
        engine, model = self.engine, self.engine.options.served_model_name
        found = []
        for name, value in zip(("running", "waiting"), engine.shown, strict=True):
            found.append(f"# HELP vllm:num_requests_{name} Number of requests.")
            found.append(f"# TYPE vllm:num_requests_{name} gauge")
            for number in range(ENGINES):
                share = value // ENGINES + (number < value % ENGINES)
                found.append(
                    f'vllm:num_requests_{name}{{engine="{number}",model_name="{model}"}} {float(share)}'
                )
        found.append(f'vllm:num_requests_waiting_by_reason{{model_name="{model}",reason="capacity"}} 7.0')
        found.append(f'vllm:request_queue_time_seconds_sum{{model_name="{model}"}} 1.25e-05')
        counted = {
            "generation_tokens_total": 30 * engine.begun,
            "time_to_first_token_seconds_count": engine.begun,
            "time_to_first_token_seconds_sum": 0.25 * engine.begun,
            "prefix_cache_queries_total": 100 * engine.begun,
            "prefix_cache_hits_total": 80 * engine.begun,
        }
        found += [
            f'vllm:{name}{{engine="0",model_name="{model}"}} {float(value)}'
            for name, value in counted.items()
        ]
        found.append(f'vllm:kv_cache_usage_perc{{engine="0",model_name="{model}"}} 0.125')
        if engine.options.version >= (0, 14):
            for level, state in enumerate(STATES):
                labels = f'engine="0",model_name="{model}",sleep_state="{state}"'
                found.append(f"vllm:engine_sleep_state{{{labels}}} {float(engine.claims == level)}")
        if engine.options.version >= (0, 33):
            found += [
                f'vllm:sleep_mode_operations_in_flight{{operation="{what}"}} {float(n)}'
                for what, n in engine.under_way.items()
            ]
        return found


class Orders:
    """The routes of the development mode."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    async def is_sleeping(self, _: web.Request) -> web.StreamResponse:
        return web.json_response({"is_sleeping": await self.engine.is_sleeping()})

    async def sleep(self, request: web.Request) -> web.StreamResponse:
        level, mode = request.query.get("level", "1"), request.query.get("mode", "abort")
        if level not in ("0", "1", "2") or mode not in ("abort", "wait", "keep"):
            return error(400 if self._told() else 422, "Bad Request", f"level={level} mode={mode}")

        async def sleep() -> dict[str, Any]:
            await self.engine.sleep(int(level), mode)
            return {"status": "sleeping", "level": int(level)}

        return await self._carried_out(request, sleep)

    async def wake_up(self, request: web.Request) -> web.StreamResponse:
        tags = request.query.getall("tags", [])

        async def wake() -> dict[str, Any]:
            await self.engine.wake(tags)
            return {"status": "sleeping" if self.engine.away else "awake", "tags": tags or None}

        return await self._carried_out(request, wake)

    async def collective_rpc(self, request: web.Request) -> web.StreamResponse:
        method = (await request.json())["method"]

        async def rpc() -> dict[str, Any]:
            await self.engine.rpc(method)
            return {"results": [None]}

        return await self._carried_out(request, rpc)

    async def _carried_out(
        self, request: web.Request, work: Callable[[], Awaitable[dict[str, Any]]]
    ) -> web.StreamResponse:
        """Done to its end, also when whoever asked has left."""
        note(self.engine, "call", request.path_qs)
        try:
            body = await asyncio.shield(asyncio.ensure_future(work()))
        except Failed as failed:
            return error(500, "InternalServerError", str(failed))
        return web.json_response(body) if self._told() else web.Response()

    def _told(self) -> bool:
        return bool(self.engine.options.version >= (0, 33))


class Inference:
    """Completions and chats, plain and streamed. `chunks` and `pace_s` in a body write the script of its answer."""

    def __init__(self, engine: Engine) -> None:
        self.engine, self.count = engine, 0

    async def answer(self, request: web.Request) -> web.StreamResponse:
        engine, body = self.engine, await request.json()
        name = engine.options.served_model_name
        if body.get("model", name) != name:
            return error(404, "NotFoundError", f"The model `{body['model']}` does not exist.")
        self.count += 1
        own_id = request.headers.get("x-request-id") or f"cmpl-{os.getpid()}-{self.count}"
        note(engine, "begin", own_id)
        step, aborted = "gone", asyncio.Event()
        try:
            if engine.dead.is_set() or not await self._scheduled(own_id, aborted):
                return error(500, "InternalServerError", "EngineDeadError")
            sent = await (self._stream if body.get("stream") else self._whole)(request, body, own_id, aborted)
            step = "end"
            return sent
        finally:
            engine.running.pop(own_id, None)
            engine.step()
            note(engine, step, own_id)

    async def _scheduled(self, own_id: str, aborted: asyncio.Event) -> bool:
        """Its turn. A sleeper lets it wait without a word, or dies of it. False: it died."""
        engine = self.engine
        if engine.away:
            note(engine, "asleep", own_id)
            if engine.options.version < (0, 18):
                print("CUDA error: an illegal memory access was encountered", flush=True)
                engine.dead.set()
                return False
        engine.waiting += 1
        engine.step()
        try:
            await engine.resumed.wait()
        finally:
            engine.waiting -= 1
        engine.running[own_id] = aborted
        engine.begun += 1
        engine.step()
        return True

    async def _words(self, body: dict[str, Any], own_id: str, aborted: asyncio.Event) -> AsyncIterator[str]:
        name = self.engine.options.served_model_name
        for number in range(int(body.get("chunks", 3))):
            pace_s = float(body.get("pace_s", 0))
            try:
                await asyncio.wait_for(aborted.wait(), pace_s)
            except TimeoutError:
                pass
            if aborted.is_set():
                return
            yield GARBAGE if self.engine.lost else f" word{number}" if number else f"{name} {own_id}"

    def _about(self, own_id: str, kind: str) -> dict[str, Any]:
        model = self.engine.options.served_model_name
        return {"id": own_id, "object": kind, "created": int(time.time()), "model": model}

    async def _whole(
        self, request: web.Request, body: dict[str, Any], own_id: str, aborted: asyncio.Event
    ) -> web.StreamResponse:
        text = "".join([word async for word in self._words(body, own_id, aborted)])
        choice: dict[str, Any] = {"index": 0, "finish_reason": "abort" if aborted.is_set() else "stop"}
        chat = request.path.endswith("/chat/completions")
        choice |= {"message": {"role": "assistant", "content": text}} if chat else {"text": text}
        kind = "chat.completion" if chat else "text_completion"
        usage = {"prompt_tokens": 1, "completion_tokens": 3, "total_tokens": 4}
        return web.json_response({**self._about(own_id, kind), "choices": [choice], "usage": usage})

    async def _stream(
        self, request: web.Request, body: dict[str, Any], own_id: str, aborted: asyncio.Event
    ) -> web.StreamResponse:
        chat = request.path.endswith("/chat/completions")
        about = self._about(own_id, "chat.completion.chunk" if chat else "text_completion")
        reply = web.StreamResponse(headers={"content-type": "text/event-stream; charset=utf-8"})
        await reply.prepare(request)

        async def event(text: str, reason: str | None = None) -> None:
            said = {"delta": {"content": text}} if chat else {"text": text}
            choice = {"index": 0, **said, "finish_reason": reason}
            await reply.write(f"data: {json.dumps({**about, 'choices': [choice]})}\n\n".encode())

        async for word in self._words(body, own_id, aborted):
            await event(word)
        await event("", "abort" if aborted.is_set() else "stop")
        await reply.write(b"data: [DONE]\n\n")
        await reply.write_eof()
        return reply
