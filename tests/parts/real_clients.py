"""The libraries and tools that people use, as one program: `real_clients.py NAME URL MODEL` prints what they understood.

It runs in whatever Python has the client installed, so it imports nothing of ours. One JSON line comes out: `refused`
(the status of a refusal that comes at once, as the client tells it; `llm` cannot ask for one), `chat`, `stream` (its pieces), `tool` (name and arguments).
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, cast

ASK = "switch the light on"
STATE = {
    "type": "object",
    "properties": {"state": {"type": "string", "enum": ["on", "off"]}},
    "required": ["state"],
}
TOOL = {"type": "function", "function": {"name": "light", "description": "Switch it.", "parameters": STATE}}
MESSAGES: list[Any] = [{"role": "user", "content": ASK}]
NOW = {"X-Headway-Wait": "0"}
LIMIT_S = 60.0


def openai(url: str, model: str) -> dict[str, Any]:
    """The openai library."""
    import openai as library

    client = library.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=LIMIT_S)
    create: Any = client.chat.completions.create
    try:
        create(model=model, messages=MESSAGES, extra_headers=NOW)
        refused = 0
    except library.RateLimitError as error:
        refused = error.status_code
        assert error.code == "wait_over"
    chat = create(model=model, messages=MESSAGES)
    pieces = [part.choices[0].delta.content for part in create(model=model, messages=MESSAGES, stream=True)]
    call = create(model=model, messages=MESSAGES, tools=[TOOL]).choices[0].message.tool_calls[0].function
    name, words = "", ""
    for part in create(model=model, messages=MESSAGES, tools=[TOOL], stream=True):
        for delta in part.choices[0].delta.tool_calls or ():
            name, words = name or delta.function.name, words + (delta.function.arguments or "")
    assert (name, json.loads(words)) == (call.name, json.loads(call.arguments)), (
        "streamed, it is the same call"
    )
    listed = [one.id for one in client.models.list()]
    return {
        "refused": refused, "chat": chat.choices[0].message.content, "stream": [one for one in pieces if one],
        "tool": [call.name, json.loads(call.arguments)], "models": listed,
    }  # fmt: skip


def anthropic(url: str, model: str) -> dict[str, Any]:
    """The anthropic library, over llama.cpp's own /v1/messages."""
    import anthropic as library

    client = library.Anthropic(base_url=url, api_key="none", max_retries=0, timeout=LIMIT_S)
    tool: Any = {"name": "light", "description": "Switch it.", "input_schema": STATE}
    ask: dict[str, Any] = {"model": model, "messages": MESSAGES, "max_tokens": 100}
    try:
        client.messages.create(**ask, extra_headers=NOW)
        refused = 0
    except library.RateLimitError as error:
        refused, body = error.status_code, cast(Any, error.body)
        assert (body["error"]["type"], body["code"]) == ("rate_limit_error", "wait_over")
    chat: Any = client.messages.create(**ask).content[0]
    with client.messages.stream(**ask) as stream:
        pieces = list(stream.text_stream)
    calls: list[Any] = list(client.messages.create(**ask, tools=[tool]).content)
    with client.messages.stream(**ask, tools=[tool]) as stream:
        streamed: list[Any] = list(stream.get_final_message().content)
    (call,) = (one for one in calls if one.type == "tool_use")
    (again,) = (one for one in streamed if one.type == "tool_use")
    assert (call.name, call.input) == (again.name, again.input), "streamed, it is the same call"
    listed = [one.id for one in client.models.list()]
    return {
        "refused": refused, "chat": chat.text, "stream": pieces, "tool": [call.name, call.input], "models": listed,
    }  # fmt: skip


def litellm(url: str, model: str) -> dict[str, Any]:
    """The litellm library, which takes the gate for any server that speaks OpenAI's API."""
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it asks the internet for prices first
    import litellm as library

    library.telemetry = False
    ask: dict[str, Any] = {
        "model": f"openai/{model}", "messages": MESSAGES, "base_url": f"{url}/v1", "api_key": "none",
        "timeout": LIMIT_S, "max_retries": 0,
    }  # fmt: skip
    complete: Any = library.completion
    try:
        complete(**ask, extra_headers=NOW)
        refused = 0
    except library.RateLimitError as error:
        refused = error.status_code
    chat = complete(**ask)
    pieces = [part.choices[0].delta.content for part in complete(**ask, stream=True)]
    call = complete(**ask, tools=[TOOL]).choices[0].message.tool_calls[0].function
    return {
        "refused": refused, "chat": chat.choices[0].message.content, "stream": [one for one in pieces if one],
        "tool": [call.name, json.loads(call.arguments)], "models": [model],
    }  # fmt: skip


def llm(url: str, model: str) -> dict[str, Any]:
    """The command `llm`, told of the gate in its extra-openai-models.yaml."""
    with tempfile.TemporaryDirectory() as home:
        common = {"model_name": model, "api_base": f"{url}/v1", "supports_tools": True}
        rows = [{"model_id": "here", **common}]
        Path(home, "extra-openai-models.yaml").write_text(json.dumps(rows))  # JSON is YAML
        chat = _llm(home, "-m", "here", "--no-stream", ASK)
        stream = _llm(home, "-m", "here", ASK)
        noted = Path(home, "noted")
        light = f"def light(state: str) -> str:\n    'Switch it.'\n    open({str(noted)!r}, 'w').write(state)\n    return state"
        _llm(
            home, "-m", "here", "--chain-limit", "2", "--functions", light, ASK
        )  # the model calls it again and again: llm gives up
        called = noted.read_text()
    assert chat.returncode == stream.returncode == 0, (chat.stderr, stream.stderr)
    return {
        "chat": chat.stdout.strip(), "stream": [stream.stdout.rstrip("\n")],
        "tool": ["light", {"state": called}], "models": [model],
    }  # fmt: skip


def _llm(home: str, *words: str) -> "subprocess.CompletedProcess[str]":
    env = {**os.environ, "LLM_USER_PATH": home, "OPENAI_API_KEY": "none"}
    command = [sys.executable, "-m", "llm", "prompt", "--no-log", *words]
    return subprocess.run(
        command, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S
    )


CLIENTS = {"openai": openai, "anthropic": anthropic, "litellm": litellm, "llm": llm}

if __name__ == "__main__":
    print(json.dumps(CLIENTS[sys.argv[1]](*sys.argv[2:4])))
