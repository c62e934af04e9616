"""What a path means: inference, control, a probe the gate can answer itself, or something else.

Matching works on a normal form (decoded, no double slashes, no dot segments, no query, no trailing slash); the path
that is sent on is the caller's, byte for byte. The tables are data: a new route is one line.
"""

from functools import lru_cache
from typing import Literal
from urllib.parse import unquote

Kind = Literal[
    "inference", "control", "root", "health", "models", "model", "tags", "version", "metrics", "other"
]
LOCAL: tuple[Kind, ...] = ("root", "health", "models", "model", "tags", "version", "metrics")

# Prefixes that clients put before the same routes. Longest first.
PREFIXES = ("/openai/v1", "/api/v1", "/v1", "/v2")

# Only these wake a service and count as use of it. (method, path without prefix; `*` at the end matches any rest)
INFERENCE: tuple[tuple[str, str], ...] = (
    ("POST", "/chat/completions"),
    ("POST", "/completions"),
    ("POST", "/completion"),
    ("POST", "/responses"),
    ("POST", "/responses/compact"),
    ("POST", "/responses/input_tokens"),
    ("POST", "/embeddings"),
    ("POST", "/embedding"),
    ("POST", "/rerank"),
    ("POST", "/reranking"),
    ("POST", "/score"),
    ("POST", "/pooling"),
    ("POST", "/classify"),
    ("POST", "/moderations"),
    ("POST", "/audio/speech"),
    ("POST", "/audio/transcriptions"),
    ("POST", "/audio/translations"),
    ("POST", "/images/generations"),
    ("POST", "/images/edits"),
    ("POST", "/images/variations"),
    ("POST", "/videos"),
    ("GET", "/realtime"),  # a websocket
    ("POST", "/messages"),
    ("POST", "/messages/count_tokens"),
    ("POST", "/api/generate"),
    ("POST", "/api/chat"),
    ("POST", "/api/embed"),
    ("POST", "/api/embeddings"),
    ("POST", "/infill"),
    ("POST", "/tokenize"),
    ("POST", "/detokenize"),
    ("POST", "/apply-template"),
    ("POST", "/generate"),
    ("PUT", "/generate"),
    ("POST", "/generate_stream"),
    ("POST", "/encode"),
    ("POST", "/invocations"),
    ("POST", "/vertex_generate"),
    ("POST", "/sdapi/v1/txt2img"),
    ("POST", "/sdapi/v1/img2img"),
    ("POST", "/prompt"),  # ComfyUI
    ("POST", "/api/prompt"),
)

# Routes that change an engine or its files: refused unless the service lists them. `ANY` is every method.
CONTROL: tuple[tuple[str, str], ...] = (
    *(
        ("ANY", path)
        for path in (
            # vLLM
            "/sleep", "/wake_up", "/collective_rpc", "/release_kv_cache_memory", "/reset_prefix_cache",
            "/reset_mm_cache", "/reset_encoder_cache", "/pause", "/resume", "/abort_requests",
            "/init_weight_transfer_engine", "/shutdown_weight_transfer_engine", "/start_weight_update",
            "/start_draft_weight_update", "/update_weights", "/update_weights_*", "/finish_weight_update",
            "/update_weight_version", "/weight_checker", "/start_profile", "/stop_profile",
            "/load_lora_adapter", "/unload_lora_adapter", "/scale_elastic_ep",
            # SGLang
            "/release_memory_occupation", "/resume_memory_occupation", "/flush_cache", "/pause_generation",
            "/continue_generation", "/abort_request", "/init_weights_update_group",
            "/destroy_weights_update_group", "/set_internal_state", "/slow_down", "/configure_logging",
            # llama.cpp, llama-swap and their kin
            "/models/load", "/models/unload", "/unload", "/api/models/unload", "/api/models/unload/*",
            "/upstream/*", "/api/inflight/*", "/model/load", "/model/unload", "/internal/model/*", "/backend/*",
            "/sdapi/v1/unload-checkpoint", "/sdapi/v1/reload-checkpoint", "/sdapi/v1/server-*",
            # Ollama
            "/api/pull", "/api/push", "/api/create", "/api/copy", "/api/delete", "/api/blobs/*", "/api/me",
            "/api/signout", "/api/user/*", "/api/experimental/*",
            # ComfyUI
            "/free", "/api/free", "/interrupt", "/api/interrupt",
        )
    ),
    ("POST", "/models"),
    ("DELETE", "/models"),
    ("DELETE", "/models/*"),
    ("POST", "/props"),
    ("POST", "/slots/*"),
    ("POST", "/lora-adapters"),
    ("POST", "/queue"),
    ("POST", "/api/queue"),
)  # fmt: skip

# What the gate can answer itself, for GET and HEAD.
PROBES: tuple[tuple[str, Kind], ...] = (
    ("/", "root"),
    ("/health", "health"),
    ("/healthz", "health"),
    ("/livez", "health"),
    ("/readyz", "health"),
    ("/ready", "health"),
    ("/ping", "health"),
    ("/models", "models"),
    ("/models/*", "model"),
    ("/api/tags", "tags"),
    ("/api/version", "version"),
    ("/metrics", "metrics"),
)


def normal(path: str) -> str:
    """The path as servers resolve it: without query, decoded, one slash between segments, no dot segments.

    >>> normal("/v1//./chat%2Fx/../completions/?a=b")
    '/v1/chat/completions'
    """
    kept: list[str] = []
    for segment in unquote(path.partition("?")[0].partition("#")[0]).replace("\\", "/").split("/"):
        if segment == "..":
            if kept:
                kept.pop()
        elif segment not in ("", "."):
            kept.append(segment)
    return "/" + "/".join(kept)


def bare(path: str) -> str:
    """A normal path without the version prefix: `/openai/v1/models` and `/v1/models` are `/models`."""
    for prefix in PREFIXES:
        if path.startswith(prefix + "/"):
            return path[len(prefix) :]
    return path


def matches(pattern: str, path: str) -> bool:
    """Whether a normal path is the pattern, or begins with it where the pattern ends in `*`."""
    return path.startswith(pattern[:-1]) if pattern.endswith("*") else path == pattern


def is_probe(method: str, path: str, probes: tuple[str, ...]) -> bool:
    """Whether this is one of a sleeping server's probes. A query may ask for more than it answers asleep.

    >>> is_probe("GET", "/v1/models", ("/models",)), is_probe("POST", "/props", ("/props",))
    (True, False)
    """
    if not probes or method not in ("GET", "HEAD") or "?" in path:
        return False
    whole = normal(path)
    return whole in probes or bare(whole) in probes


@lru_cache(maxsize=4096)
def kind_of(
    method: str, path: str, extra: tuple[tuple[str, str], ...] = (), allow: tuple[str, ...] = ()
) -> Kind:
    """What a request line asks for.

    Args:
        method: as sent, upper case.
        path: as sent, without the `/upstream/SERVICE` prefix.
        extra: more inference routes (method, pattern on the whole normal path).
        allow: control paths that this service lets pass.
    """
    whole = normal(path)
    forms = (whole, bare(whole))
    folded = tuple(form.casefold() for form in forms)
    if not any(matches(pattern, form) for pattern in allow for form in forms):
        for verb, pattern in CONTROL:
            if verb in ("ANY", method) and any(matches(pattern, form) for form in folded):
                return "control"
    for verb, pattern in (*INFERENCE, *extra):
        if verb == method and any(matches(pattern, form) for form in forms):
            return "inference"
    if method in ("GET", "HEAD"):
        for pattern, probe in PROBES:
            if any(matches(pattern, form) for form in forms):
                return probe
    return "other"
