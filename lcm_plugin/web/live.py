"""Server-sent events: which sessions changed, while a page is open."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import anyio
from anyio.to_thread import run_sync
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from lcm_plugin.errors import LcmError

if TYPE_CHECKING:
    from lcm_plugin.engine import Engine
    from lcm_plugin.web.site import Site

SECONDS = 1.0
"""How often the database is looked at."""
_QUIET_ROUNDS = 15
_MOST = 200


class Watch:
    """What one page has seen. The host is another process, so the database itself is asked."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._seen: dict[int, tuple[Any, ...]] = {}
        self._since = 0
        self._compacting: frozenset[int] = frozenset()
        self.look()

    def look(self) -> list[dict[str, Any]]:
        """The sessions that changed since the last look, or whose compaction began or ended."""
        with self._engine.store.read() as reader:
            rows = {
                row.conversation_id: row for row in reader.conversations_used_since(self._since, limit=_MOST)
            }
            compacting = frozenset(debt.conversation_id for debt in reader.held_debts() if debt.owner)
            for number in compacting ^ self._compacting:
                row = rows.get(number) or reader.conversation(number)
                if row is not None:
                    rows[number] = row
        changed = []
        for number, row in rows.items():
            state = (row.next_seq, row.revision, row.updated_at, number in compacting)
            if self._seen.get(number) != state:
                self._seen[number] = state
                changed.append(
                    {
                        "number": number,
                        "last": row.next_seq - 1,
                        "revision": row.revision,
                        "context_tokens": row.context_tokens,
                        "compacting": number in compacting,
                    }
                )
        self._since = max([self._since, *(row.updated_at for row in rows.values())])
        self._compacting = compacting
        return changed


async def events(site: Site, request: Request) -> Response:
    """The stream: an event ``change`` with the sessions that changed, and a comment now and then."""

    async def stream() -> AsyncIterator[str]:
        watch = await run_sync(Watch, site.engine)
        yield "retry: 2000\n\n"
        quiet = 0
        while not await request.is_disconnected():
            await anyio.sleep(SECONDS)
            try:
                changed = await run_sync(watch.look)
            except LcmError as error:
                yield f"event: problem\ndata: {json.dumps({'error': str(error)})}\n\n"
                continue
            quiet += 1
            if changed:
                yield f"event: change\ndata: {json.dumps({'sessions': changed})}\n\n"
                quiet = 0
            elif quiet >= _QUIET_ROUNDS:
                yield ": nothing new\n\n"
                quiet = 0

    return StreamingResponse(stream(), media_type="text/event-stream", headers={"Cache-Control": "no-store"})
