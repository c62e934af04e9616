"""Where a request goes, as a table: the name of a case is the sentence it proves."""

import pytest

from headway.core import paths
from headway.core.route import Local, Refuse, Routes, To, prepare, route
from headway.core.wire import Route, Service, Table

pytestmark = pytest.mark.core

TWO = prepare(
    Table(
        1,
        "d",
        {
            "chat": Service("chat", 1, "open", "awake", model="org/big", names=("gpt", "big:latest")),
            "draw": Service("draw", 1, "closed", "failed", names=("sd",), allow=("/free",)),
        },
        routes=(Route("POST", "/mine/*"),),
    )
)
ONE = prepare(Table(1, "d", {"chat": Service("chat", 1, "closed", names=("gpt",))}))
NONE = prepare(Table(1, "d", {}))
ASLEEP = prepare(
    Table(1, "d", {"chat": Service("chat", 1, "closed", probes=("/health", "/props", "/models"))})
)

CASES: dict[str, tuple[Routes, str, str, str | None, str | None, object]] = {
    # name: (routes, method, path, model, fixed, answer)
    "by model name": (TWO, "POST", "/v1/chat/completions", "gpt", None, ("chat", True)),
    "by service name": (TWO, "POST", "/v1/chat/completions", "chat", None, ("chat", True)),
    "without /v1": (TWO, "POST", "/chat/completions", "gpt", None, ("chat", True)),
    "with /openai/v1": (TWO, "POST", "/openai/v1/chat/completions", "gpt", None, ("chat", True)),
    "with a query and a slash": (TWO, "POST", "/v1/chat/completions/?beta=1", "gpt", None, ("chat", True)),
    "ollama names without tag": (TWO, "POST", "/api/chat", "big", None, ("chat", True)),
    "ollama names with tag": (TWO, "POST", "/api/chat", "sd:latest", None, ("draw", True)),
    "configured but failed is routed": (TWO, "POST", "/v1/images/generations", "sd", None, ("draw", True)),
    "unknown model": (TWO, "POST", "/v1/chat/completions", "gpt-9", None, "model_not_found"),
    "the upstream's own name is not a name": (
        TWO,
        "POST",
        "/v1/completions",
        "org/big",
        None,
        "model_not_found",
    ),
    "no model, two services": (TWO, "POST", "/v1/chat/completions", None, None, "model_required"),
    "no model, one service": (ONE, "POST", "/v1/chat/completions", None, None, ("chat", True)),
    "no service at all": (NONE, "POST", "/v1/chat/completions", None, None, "model_required"),
    "a GET of an inference path": (ONE, "GET", "/v1/chat/completions", None, None, ("chat", False)),
    "HEAD never wakes": (ONE, "HEAD", "/v1/chat/completions", None, None, ("chat", False)),
    "a configured route": (TWO, "POST", "/mine/thing", "gpt", None, ("chat", True)),
    "not a configured route": (TWO, "PUT", "/mine/thing", "gpt", None, ("chat", False)),
    "show is not use": (TWO, "POST", "/api/show", "gpt", None, ("chat", False)),
    "root": (TWO, "GET", "/", None, None, Local("root")),
    "health of the gate": (TWO, "GET", "/health?x=1", None, None, Local("health")),
    "models": (TWO, "GET", "/v1/models/", None, None, Local("models")),
    "one model, slash in its id": (
        TWO,
        "GET",
        "/v1/models/org%2Fbig",
        None,
        None,
        Local("model", None, "org/big"),
    ),
    "tags": (TWO, "GET", "/api/tags", None, None, Local("tags")),
    "unknown route": (TWO, "GET", "/favicon.ico", None, None, "route_unknown"),
    "own port": (TWO, "POST", "/v1/chat/completions", None, "chat", ("chat", True)),
    "own port, own name": (TWO, "POST", "/v1/chat/completions", "gpt", "chat", ("chat", True)),
    "own port, the upstream's name": (TWO, "POST", "/v1/chat/completions", "org/big", "chat", ("chat", True)),
    "own port, another's name": (TWO, "POST", "/v1/chat/completions", "sd", "chat", "model_not_found"),
    "own port, no rewrite: the server decides": (TWO, "POST", "/v1/completions", "x", "draw", ("draw", True)),
    "own port, unknown route passes": (TWO, "GET", "/index.html", None, "chat", ("chat", False)),
    "own port, health": (TWO, "GET", "/health", None, "chat", To("chat", False, "/health", "health")),
    "own port, metrics": (TWO, "GET", "/metrics", None, "chat", To("chat", False, "/metrics", "metrics")),
    "a sleeper answers it": (
        ASLEEP,
        "GET",
        "/health",
        None,
        "chat",
        To("chat", False, "/health", "health", True),
    ),
    "a sleeper answers it with /v1": (
        ASLEEP,
        "HEAD",
        "/v1/models",
        None,
        "chat",
        To("chat", False, "/v1/models", "models", True),
    ),
    "a sleeper answers what only it knows": (
        ASLEEP,
        "GET",
        "/props",
        None,
        None,
        To("chat", False, "/props", None, True),
    ),
    "a query may ask for more": (
        ASLEEP,
        "GET",
        "/props?model=x",
        None,
        "chat",
        To("chat", False, "/props?model=x"),
    ),
    "a sleeper's other routes": (ASLEEP, "GET", "/slots", None, "chat", ("chat", False)),
    "the front door's own list": (ASLEEP, "GET", "/v1/models", None, None, Local("models")),
    "own port gone from the table": (TWO, "GET", "/health", None, "gone", "service_unknown"),
    "prefix": (
        TWO,
        "POST",
        "/upstream/chat/v1/completions?a=1",
        None,
        None,
        To("chat", True, "/v1/completions?a=1"),
    ),
    "prefix, bare": (TWO, "GET", "/upstream/chat", None, None, To("chat", False, "/")),
    "prefix, encoded rest unchanged": (
        TWO,
        "GET",
        "/upstream/chat/a%20b/",
        None,
        None,
        To("chat", False, "/a%20b/"),
    ),
    "prefix, unknown service": (TWO, "GET", "/upstream/nope/x", None, None, "service_unknown"),
    "prefix twice is llama-swap's control route": (
        TWO,
        "GET",
        "/upstream/chat/upstream/x",
        None,
        None,
        "control_route",
    ),
    "sleep": (TWO, "POST", "/sleep?level=2", None, "chat", "control_route"),
    "sleep with slashes and dots": (TWO, "POST", "//v1/../sleep/", None, "chat", "control_route"),
    "sleep percent-encoded": (TWO, "POST", "/%73leep", None, "chat", "control_route"),
    "sleep in capitals": (TWO, "POST", "/SLEEP", None, "chat", "control_route"),
    "sleep by GET": (TWO, "GET", "/sleep", None, "chat", "control_route"),
    "sleep behind the prefix": (TWO, "POST", "/upstream/chat/sleep", None, None, "control_route"),
    "pull on the front door": (TWO, "POST", "/api/pull", "gpt", None, "control_route"),
    "pull without a model": (TWO, "POST", "/api/pull", None, None, "control_route"),
    "lora with /v1": (TWO, "POST", "/v1/load_lora_adapter", "gpt", None, "control_route"),
    "models deleted": (TWO, "DELETE", "/v1/models/gpt", None, "chat", "control_route"),
    "free": (TWO, "POST", "/free", None, "chat", "control_route"),
    "free where listed": (TWO, "POST", "/free", None, "draw", ("draw", False)),
}


@pytest.mark.parametrize(
    ("routes", "method", "path", "model", "fixed", "answer"), CASES.values(), ids=CASES.keys()
)
def test_route(
    routes: Routes, method: str, path: str, model: str | None, fixed: str | None, answer: object
) -> None:
    got = route(routes, method, path, model, fixed)
    if isinstance(answer, str):
        assert isinstance(got, Refuse)
        assert got.code == answer
    elif isinstance(answer, tuple):
        assert isinstance(got, To)
        assert (got.service, got.demand) == answer
    else:
        assert got == answer


PROBES = (
    "/", "/favicon.ico", "/health", "/healthz", "/livez", "/readyz", "/ready", "/ping", "/metrics", "/version",
    "/load", "/v1/models", "/models", "/v1/models/x", "/props", "/server_info", "/model_info", "/get_model_info",
    "/get_server_info", "/v1/loads", "/is_sleeping", "/is_paused", "/info", "/api/version", "/api/tags", "/api/ps",
    "/api/status", "/running", "/logs", "/logs/stream", "/system_stats", "/queue", "/history", "/history/1",
    "/object_info", "/prompt", "/features", "/ws", "/slots", "/health_generate", "/static/app.js",
)  # fmt: skip


@pytest.mark.parametrize("decoration", ["", "/", "?x=1", "/?x=1"])
@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS"])
@pytest.mark.parametrize("fixed", [None, "chat"])
def test_probes_are_never_demand(method: str, decoration: str, fixed: str | None) -> None:
    for path in PROBES:
        got = route(TWO, method, path + decoration, None, fixed)
        assert not (isinstance(got, To) and got.demand), path


def test_404_only_for_names_that_are_not_configured() -> None:
    got = route(TWO, "POST", "/v1/chat/completions", "gpt-9")
    assert isinstance(got, Refuse)
    assert (got.status, got.facts["known"]) == (404, ["big:latest", "gpt", "sd"])


def test_the_path_is_sent_as_it_came() -> None:
    got = route(TWO, "POST", "/v1//chat/completions/?q=%41", "gpt")
    assert got == To("chat", True, "/v1//chat/completions/?q=%41")


def test_every_pattern_of_the_tables_is_reachable() -> None:
    for verb, pattern in paths.INFERENCE:
        assert paths.kind_of(verb, pattern) == "inference", pattern
    for verb, pattern in paths.CONTROL:
        assert paths.kind_of("POST" if verb == "ANY" else verb, pattern.replace("*", "x")) == "control", (
            pattern
        )
