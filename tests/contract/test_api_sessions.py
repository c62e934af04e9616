"""Sessions of pages in a browser that knows several Headways."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.parts.false_api import Served, serving

pytestmark = pytest.mark.contract

PIN, STOP = "correct horse", "/api/v1/jobs/j1/stop"


@pytest.fixture
async def api(short_dir: Path) -> AsyncIterator[Served]:
    async with serving(short_dir) as served:
        yield served


async def test_two_headways_on_one_machine_do_not_log_each_other_out(api: Served) -> None:
    """Browsers keep one cookie of each name for a host, whatever the port."""
    await asyncio.to_thread(api.local.put, "/api/v1/pin", {"pin": PIN})
    jar, words = {}, {}
    for host in ("127.0.0.1:8490", "127.0.0.1:9490", "localhost"):
        _, headers, body = await api.raw("POST", "/api/v1/session", {"pin": PIN}, Host=host)
        name, _, value = headers["set-cookie"].partition(";")[0].partition("=")
        jar[name], words[host] = value, json.loads(body)["csrf"]
    cookies = "; ".join(f"{name}={value}" for name, value in jar.items())
    for host, csrf in words.items():
        status, _, _ = await api.raw("POST", STOP, Host=host, Cookie=cookies, X_CSRF_Token=csrf)
        assert status == 202, host


async def test_a_cookie_of_the_same_name_from_elsewhere_keeps_nobody_out(api: Served) -> None:
    """Another server on this machine may set one, for a longer path say: it comes first then."""
    await asyncio.to_thread(api.local.put, "/api/v1/pin", {"pin": PIN})
    _, headers, body = await api.raw("POST", "/api/v1/session", {"pin": PIN})
    ours, csrf = headers["set-cookie"].partition(";")[0], json.loads(body)["csrf"]
    tossed = ours.partition("=")[0] + "=" + "0" * 48
    for cookies in (f"{tossed}; {ours}", f"{ours}; {tossed}"):
        assert (await api.raw("POST", STOP, Cookie=cookies, X_CSRF_Token=csrf))[0] == 202
    assert (await api.raw("POST", STOP, Cookie=tossed, X_CSRF_Token=csrf))[0] == 401
    ended = await api.raw("DELETE", "/api/v1/session", Cookie=f"{tossed}; {ours}", X_CSRF_Token=csrf)
    assert ended[0] == 204
    assert (await api.raw("POST", STOP, Cookie=ours, X_CSRF_Token=csrf))[0] == 401
