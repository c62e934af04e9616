"""Whatever fits the OpenAPI document, and whatever does not: no 5xx, and every answer is as described.

Few examples each in a normal run; `make schema` plays 50 and more of each operation.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import CHECKS
from schemathesis.config import SchemathesisConfig

from headway.api.app import make_app
from headway.api.reference import reference
from tests.parts.core_api import running
from tests.parts.false_api import Served
from tests.parts.programs import ROOT

pytestmark = pytest.mark.contract

EXAMPLES = int(os.environ.get("HEADWAY_EXAMPLES", "2"))
WHOLE = EXAMPLES >= 50
Headers = Callable[[], dict[str, str]]

CONFIG = SchemathesisConfig.from_dict(
    {
        "generation": {"max-examples": EXAMPLES, "database": "none", "deterministic": not WHOLE},
        # what a driver, a recipe or a program can take, which processes live and what fits is not in the document:
        # what fits it may be refused, and so may a group of jobs that says nothing
        "operations": [
            {
                "include-name": what,
                "checks": {
                    "positive_data_acceptance": {
                        "expected-statuses": ["2xx", "401", "403", "404", "409", "422"]
                    }
                },
            }
            for what in (
                *(
                    f"POST /api/v1/{path}"
                    for path in ("jobs", "leases", "claims", "windows", "select/{verb}")
                ),
                "GET /api/v1/jobs",
            )
        ]
        + [
            # a POST to these paths is one of a verb called "log" or "runs", and there is none: 422
            {
                "include-path-regex": "/(log|runs)$",
                "checks": {
                    "unsupported_method": {"enabled": False},
                    "allow_header_conformance": {"enabled": False},
                },
            },
        ],
        "phases": {"coverage": {"enabled": WHOLE}},
    }
)
schema = schemathesis.openapi.from_dict(make_app("1").openapi(), config=CONFIG)


@pytest.fixture(scope="module", params=("token", "pin", "nobody"))
def caller(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Served, Headers]]:
    """An API, and how one kind of caller shows who it is. A session that a call ended is begun again."""
    with running(Path(os.path.realpath(tmp_path_factory.mktemp("api")))) as api:
        yield api, _headers(api, request.param)


def _headers(api: Served, kind: str) -> Headers:
    sessions, now = api.access.sessions, {"cookie": ""}
    secret = api.local.post("/api/v1/tokens", {"name": "all", "scopes": ["admin"]})["token"]

    def headers() -> dict[str, str]:
        api.access.rates.forget()  # the clock of this API stands still
        api.access._tries.right()  # the checks try wrong tokens too, more of them than anybody may
        if kind == "token":
            return {"Authorization": f"Bearer {secret}"}
        if kind == "nobody":
            return {}
        if (session := sessions.find(now["cookie"])) is None:
            now["cookie"], session = sessions.by_ticket(sessions.ticket())
        page = {"Host": "127.0.0.1:8490", "Cookie": f"headway_session_8490={now['cookie']}"}
        return {**page, "X-CSRF-Token": session.csrf}

    return headers


@schema.parametrize()
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck),
          phases=[Phase.explicit, Phase.generate, Phase.shrink])  # fmt: skip
def test_every_operation_answers_as_described(case: Any, caller: tuple[Served, Headers]) -> None:
    api, headers = caller
    given = headers()
    # a page that may not do it is known all the same: it gets 403, and without its token is not "without a token"
    known = [CHECKS.get_one("missing_required_header")] if "Cookie" in given else []
    url = f"http://127.0.0.1:{api.port}"
    case.call_and_validate(base_url=url, headers=given, excluded_checks=known, timeout=30)


def test_the_reference_is_up_to_date() -> None:
    assert (ROOT / "docs" / "reference" / "api.md").read_text() == reference(), (
        "run: python -m headway.api.reference > docs/reference/api.md"
    )
