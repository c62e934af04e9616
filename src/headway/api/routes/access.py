"""Who may come in: tokens of programs, the PIN, and the session of a page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, Self

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import HTMLResponse
from pydantic import Field, model_validator

from headway.api.access import cookie_name, cookies
from headway.api.auth import SCOPES, Peer, ScopeWord, needs, peer_of
from headway.api.bodies import TEXT, Body, one_of
from headway.api.pages import Cursor, Limit, link, page
from headway.api.parts import Parts, answer, parts_of
from headway.api.sessions import SESSION_S, TICKET_S
from headway.api.tokens import TokenRow
from headway.api.web import headers as headers_of
from headway.core.names import PIN_MAX, PIN_MIN

router = APIRouter(tags=["access"])
PartsNow = Annotated[Parts, Depends(parts_of)]
Caller = Annotated[Peer, Depends(peer_of)]
ATTRIBUTES = "Path=/; HttpOnly; SameSite=Strict"
# The secret is behind the #, which no browser sends: it is in no log and in no Referer.
OPENING = """\
<!doctype html><meta charset="utf-8"><title>Headway</title><p id="said">One moment.</p><script>
const ticket = location.hash.slice(1);
history.replaceState(null, "", location.pathname);
fetch("api/v1/session", {method: "POST", headers: {"Content-Type": "application/json"},
  body: JSON.stringify({ticket})}).then(async (reply) => {
  const found = await reply.json();
  if (!reply.ok) { document.getElementById("said").textContent = found.detail; return; }
  localStorage.setItem("headway_csrf", found.csrf);
  location.replace("./");
});
</script>
"""
OPENING_HEADERS = headers_of(OPENING)


class TokenBody(Body):
    """A new token. `expires_in_s` None: it is valid until it is revoked."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")
    scopes: list[ScopeWord] = Field(min_length=1, max_length=len(SCOPES))
    class_: Literal["attended", "background"] = Field(
        "attended", alias="class", description="the strongest class its requests at the gate may have"
    )
    priority_max: int = Field(100, ge=0, le=100, description="the highest priority of its requests there")
    expires_in_s: float | None = Field(None, gt=0, le=10 * 366 * 86400)


class PinBody(Body):
    pin: str = Field(min_length=PIN_MIN, max_length=PIN_MAX)


class SessionBody(Body):
    """Either the PIN, or a ticket from `headway open`."""

    model_config = one_of({"pin": TEXT}, {"ticket": TEXT})

    pin: str | None = Field(None, max_length=PIN_MAX)
    ticket: str | None = Field(None, max_length=128)

    @model_validator(mode="after")
    def one_of_them(self) -> Self:
        if (self.pin is None) == (self.ticket is None):
            raise ValueError("give either pin or ticket")
        return self


@dataclass(frozen=True, slots=True)
class TokenMade:
    """`token` is the secret; it is shown this once."""

    token: str
    row: TokenRow


@dataclass(frozen=True, slots=True)
class SessionBegun:
    """Send `csrf` as X-CSRF-Token with each change; it is told this once. The session itself is the cookie."""

    csrf: str
    expires_in_s: float
    scopes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Ticket:
    """Open `url` in a browser within `expires_in_s`; it works once."""

    url: str
    expires_in_s: float


@dataclass(frozen=True, slots=True)
class Who:
    """Who the daemon takes the caller for, and what that one may do."""

    name: str
    via: str
    scopes: tuple[str, ...]
    pin_set: bool


@router.get("/api/v1/tokens", response_model=tuple[TokenRow, ...], openapi_extra=needs("admin"))
async def tokens(request: Request, parts: PartsNow, after: Cursor = None, limit: Limit = 200) -> Response:
    """Every token without its secret, oldest first. The header Link leads to the next page."""
    shown, more = page(parts.access.tokens.rows(), lambda row: row.id, after, limit)
    return answer(tuple[TokenRow, ...], shown, headers=link(request, more))


@router.post(
    "/api/v1/tokens", status_code=201, response_model=TokenMade, openapi_extra=needs("admin", secret=True)
)
async def create(body: TokenBody, parts: PartsNow) -> Response:
    """Make a token. The answer is the only place where its secret is ever seen."""
    made = await parts.access.tokens.create(
        body.name, body.scopes, body.class_, body.priority_max, body.expires_in_s
    )
    parts.tokens_changed()
    headers = {"Location": f"/api/v1/tokens/{made[1].id}", "Cache-Control": "no-store"}
    return answer(TokenMade, TokenMade(*made), 201, headers)


@router.delete("/api/v1/tokens/{target}", response_model=TokenRow, openapi_extra=needs("admin"))
async def revoke(target: str, parts: PartsNow) -> Response:
    """End a token, by its id or its name: here at once, and at the gate within a moment."""
    row = await parts.access.tokens.revoke(target)
    parts.tokens_changed()
    return answer(TokenRow, row)


@router.put("/api/v1/pin", status_code=204, response_class=Response, openapi_extra=needs("admin"))
async def set_pin(body: PinBody, parts: PartsNow) -> Response:
    """Set the PIN. Every page that is open has to give it anew."""
    await parts.access.sessions.set_pin(body.pin)
    return Response(status_code=204)


@router.delete("/api/v1/pin", status_code=204, response_class=Response, openapi_extra=needs("admin"))
async def clear_pin(parts: PartsNow) -> Response:
    """Have no PIN. Pages are let in by `headway open` only."""
    await parts.access.sessions.set_pin(None)
    return Response(status_code=204)


@router.get("/api/v1/session", response_model=Who)
async def who(parts: PartsNow, peer: Caller) -> Response:
    """Who the caller is taken for."""
    scopes = SCOPES if peer.may("admin") else tuple(one for one in SCOPES if peer.may(one))
    return answer(Who, Who(peer.name, peer.via, scopes, parts.access.sessions.pin_set))


@router.post(
    "/api/v1/session", status_code=201, response_model=SessionBegun, openapi_extra=needs("open", secret=True)
)
async def begin(request: Request, body: SessionBody, parts: PartsNow) -> Response:
    """Let a page in. Wrong PINs are answered 401, then 429 with the time to wait."""
    sessions = parts.access.sessions
    if body.ticket is not None:
        secret, session = sessions.by_ticket(body.ticket)
    else:
        secret, session = await sessions.by_pin(body.pin or "")
    begun = SessionBegun(session.csrf, SESSION_S, tuple(one for one in SCOPES if one != "admin"))
    headers = {
        "Set-Cookie": f"{cookie_name(request.headers)}={secret}; Max-Age={SESSION_S:.0f}; {ATTRIBUTES}",
        "Cache-Control": "no-store",
    }
    return answer(SessionBegun, begun, 201, headers)


@router.delete("/api/v1/session", status_code=204, response_class=Response, openapi_extra=needs("read"))
async def end(request: Request, parts: PartsNow) -> Response:
    """End the session of this page."""
    for secret in cookies(request.headers):
        parts.access.sessions.end(secret)
    return Response(
        status_code=204, headers={"Set-Cookie": f"{cookie_name(request.headers)}=; Max-Age=0; {ATTRIBUTES}"}
    )


@router.post(
    "/api/v1/session/tickets",
    status_code=201,
    response_model=Ticket,
    openapi_extra=needs("admin", secret=True),
)
async def ticket(parts: PartsNow) -> Response:
    """A link that lets one page in, for `headway open`."""
    made = Ticket(f"{parts.url}/open#{parts.access.sessions.ticket()}", TICKET_S)
    return answer(Ticket, made, 201, {"Cache-Control": "no-store"})


@router.get("/open", response_class=HTMLResponse, openapi_extra=needs("open"))
async def opening() -> Response:
    """The page that such a link leads to: it begins the session, then shows the board."""
    return HTMLResponse(OPENING, headers=OPENING_HEADERS)
