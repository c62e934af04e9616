"""The config that `headway init` writes: what was found, in shadow mode, with words on what to do next."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from headway.core.units import size_text
from headway.errors import ConfigThere
from headway.ports import FoundServer, Reading

CALLED = {
    "vllm": "vLLM", "sglang": "SGLang", "llamacpp": "llama.cpp", "ollama": "Ollama", "comfyui": "ComfyUI",
    "lmstudio": "LM Studio", "openai": "a model server",
}  # fmt: skip
HEALTH = {"vllm": "/health", "llamacpp": "/health", "ollama": "/api/version", "comfyui": "/system_stats"}
DECLARED = "device.sim0"  # the table of a device that nobody measures, for a machine without one
LISTS_MODELS = "/v1/models"  # the health of others: a /health of theirs may run a generation
HEAD = """\
#:schema {schema}
# Headway's config. Every key: docs/reference/config.md, or `headway config schema`.
# After an edit: `headway check`, then `headway config apply` if Headway runs.

# shadow only watches and says what it would do: `headway status`, `headway events`. "live" lets it act.
mode = "shadow"
"""
SERVERS = """
# ---------------------------------------------------------------- model servers
# Clients connect to http://127.0.0.1:8491/v1 from now on, instead of to the servers themselves.
"""
NONE = "# None was found running. A service looks like the one below.\n"
STARTED = """\
# start = ["...", "--port", "{port}"]      # lets Headway start and stop it; then upstream is
# upstream = "http://127.0.0.1:{port}"     # not needed, and memory goes to others while nobody asks
# memory = { awake = "16GiB" }            # on each GPU; without, it gets its GPUs alone
"""
EXAMPLE = """\

[service.chat]
driver = "process"                        # llamacpp and vllm know more of their servers
start = ["llama-server", "-m", "/models/chat.gguf", "--host", "127.0.0.1", "--port", "{port}"]
models = ["chat"]                         # what clients may call it
memory = { awake = "16GiB" }

# ---------------------------------------------------------------- jobs

[job.train]
driver = "restart"                        # stopped when a model needs the card, started again later
start = ["python", "train.py", "--resume"]
saved = ["cat", "checkpoint.step"]        # prints the last saved point
memory = { running = "14GiB" }
hold = true                               # waits for `headway release train`
"""


def text(cards: Reading, servers: Sequence[FoundServer], schema: str, example: bool = False) -> str:
    """A whole config.

    Args:
        cards: what NVML shows.
        servers: model servers that run.
        schema: the file with the JSON Schema, for editors.
        example: the example is not only a comment.
    """
    parts = [HEAD.format(schema=schema), *_devices(cards), SERVERS]
    parts += list(_services(servers)) or ([] if example else [NONE])
    parts.append(EXAMPLE if example else _commented(EXAMPLE))
    return "".join(parts)


def written(file: Path, text: str) -> None:
    """Make the file, readable for its user alone.

    Raises:
        ConfigThere: there is one already, or it cannot be made there.
    """
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        made = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise ConfigThere(
            f"there is a {file} already, and it stays as it is. See what would be written: `headway init -n`; "
            f"write it elsewhere: `headway init FILE`.",
            file=str(file),
        ) from None
    except OSError as error:
        raise _unwritable(file, error) from None
    try:
        with os.fdopen(made, "w", encoding="utf-8") as out:
            out.write(text)
    except OSError as error:
        file.unlink()  # half a config is none, and would be in the way of the next try
        raise _unwritable(file, error) from None


def _unwritable(file: Path, error: OSError) -> ConfigThere:
    return ConfigThere(
        f"{file} cannot be written ({error.strerror}). Write it elsewhere: `headway init FILE`.",
        file=str(file),
    )


def _devices(cards: Reading) -> Iterator[str]:
    yield "\n# ---------------------------------------------------------------- GPUs\n"
    for card in cards.devices:
        total = size_text(card.total_bytes) if card.total_bytes is not None else "size unknown"
        used = f", {card.used_bytes / (1 << 30):.1f} GiB used now" if card.used_bytes is not None else ""
        yield f"# gpu{card.index}: {_one_line(card.name)}, {total}{used}\n"
    if cards.devices:
        yield '# All of them are used. To use some: one [device.gpu0] table for each, with meter = "nvml".\n'
    else:
        why = f" ({_one_line(cards.trouble)})" if cards.trouble else ""
        yield f"# None was found{why}. To try Headway without one, uncomment:\n"
        yield f'# [{DECLARED}]\n# meter = "declared"\n# total = "24GiB"\n'


def _services(servers: Sequence[FoundServer]) -> Iterator[str]:
    names: set[str] = set()
    models: set[str] = set()
    for server in servers:
        kind = "server" if server.kind == "openai" else str(server.kind)
        name = next(one for one in (kind, *(f"{kind}-{n}" for n in range(2, 1000))) if one not in names)
        names.add(name)
        own = [model for model in dict.fromkeys(server.models) if model and model not in models]
        twice = sorted(set(server.models) - set(own))
        models |= {*own, *(() if own else (name,))}
        yield f"\n[service.{name}]  # {CALLED[server.kind]}, found running\n"
        yield f'driver = "process"\nupstream = {_quoted(server.url)}\nhealth = '
        yield f"{_quoted(HEALTH.get(server.kind, LISTS_MODELS))}\n"
        if own:
            yield f"models = [{', '.join(map(_quoted, own))}]\n"
        if twice:
            yield f"# models of another server above as well: {', '.join(map(_one_line, twice))}\n"
        if server.kind == "vllm":
            yield '# driver = "vllm"                         # puts it to sleep and wakes it: docs/howto/vllm.md\n'
        yield STARTED


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")  # a basic string of TOML as well


def _one_line(text: str) -> str:
    return re.sub(r"[\x00-\x1f\x7f]+", " ", text)


def _commented(text: str) -> str:
    return "".join(
        f"# {line}" if line.strip() and not line.startswith("#") else line for line in text.splitlines(True)
    )
