"""Who may ask: this machine's browser with the token, under this server's own name, and for changes only with ``--write``.

A page of another site can send requests to a server on this machine, and a name of its own can be made to resolve to
127.0.0.1. So every request needs the token, a Host header that names this server, and, where a browser names one, this
server as its origin.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST_BYTES = 1_000_000
"""The largest body of a request."""
READS_BY_POST = frozenset({"/api/grep", "/api/describe", "/api/expand", "/api/integrity/run"})
"""What is sent as POST and changes nothing."""
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = (
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    # Without any referrer a browser would send forms of these pages from the origin "null".
    (b"referrer-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
_SAFE = frozenset({"GET", "HEAD"})
_SECONDS = 30 * 86_400


class Guard:
    """Wraps an application; refuses what is not for it, and adds the headers that keep its pages to themselves."""

    def __init__(self, app: ASGIApp, *, token: str, hosts: Sequence[str], write: bool) -> None:
        self._app = app
        self._token = token
        self._hosts = frozenset(hosts)
        self._origins = frozenset(f"http://{host}" for host in hosts)
        self._write = write
        self._cookie = f"lcm_{hashlib.sha256(token.encode()).hexdigest()[:8]}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise RuntimeError("only HTTP is served here")

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                names = {name.lower() for name, _ in message["headers"]}
                headers = [*_HEADERS, (b"cache-control", b"no-cache, private")]
                message["headers"] = [*message["headers"], *(one for one in headers if one[0] not in names)]
            await send(message)

        answer = self._refusal(Request(scope)) or self._app
        await answer(scope, receive, send_guarded)

    def _refusal(self, request: Request) -> Response | None:
        """The answer to what may not be asked, or the way to a page without the token in its address."""
        headers = request.headers
        if headers.get("host", "") not in self._hosts:
            return _refused(f"this server answers to {sorted(self._hosts)[0]} only", 421)
        origin = headers.get("origin")
        if origin is not None and origin not in self._origins:
            return _refused(f"a page of {origin} may ask nothing here")
        given = request.query_params.get("token")
        if given is not None and request.method in _SAFE:
            return self._signed_in(request) if self._is_token(given) else _no_token()
        bearer = headers.get("authorization", "").removeprefix("Bearer ")
        by_header = self._is_token(bearer)
        if not by_header and not self._is_token(request.cookies.get(self._cookie, "")):
            return _no_token()
        if request.method in _SAFE:
            return None
        if not by_header and origin is None:
            return _refused("a change needs the header Origin, or the token in the header Authorization")
        if int(headers.get("content-length") or MOST_BYTES + 1) > MOST_BYTES:
            return _refused(f"the body needs a length of at most {MOST_BYTES:,} bytes", 413)
        if not self._write and request.url.path not in READS_BY_POST:
            return _refused("this server only reads: start it with --write to change anything")
        return None

    def _is_token(self, given: str) -> bool:
        return secrets.compare_digest(given.encode(), self._token.encode())

    def _signed_in(self, request: Request) -> Response:
        """Keeps the token in a cookie, so that it stands in no address and no history from here on."""
        rest = urlencode(
            [(name, value) for name, value in request.query_params.multi_items() if name != "token"]
        )
        answer = RedirectResponse(f"{request.url.path}?{rest}" if rest else request.url.path, 303)
        answer.set_cookie(self._cookie, self._token, max_age=_SECONDS, httponly=True, samesite="lax")
        return answer


def _no_token() -> Response:
    return _refused("open the address that lcm web printed when it started: it holds the token", 401)


def _refused(text: str, status: int = 403) -> Response:
    return PlainTextResponse(f"{text}\n", status)
