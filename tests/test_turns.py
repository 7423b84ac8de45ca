"""What a host hands over twice, and its own copies of the current turn."""

from __future__ import annotations

from typing import Any

import pytest
from messages import assistant, call, result, user

from lcm_plugin import Context, Engine, LcmPlugin, Session, Turn
from lcm_plugin.events import Event
from lcm_plugin.turns import with_live_copies

pytestmark = pytest.mark.both_stores_under_ci

SYSTEM = {"role": "system", "content": "You help."}


def before(engine: Engine, session: Session, messages: list[dict[str, Any]], window: int = 32_000) -> Any:
    return LcmPlugin(engine=engine).before_turn(Turn(session, messages, window=window))


def test_the_hosts_decorated_copy_of_the_current_turn_wins(engine: Engine, session: Session) -> None:
    plain = before(engine, session, [user("hi"), assistant("hello"), user("do x")])
    decorated = user("do x\n\n[Your active task list: 1. x (v2)]", x_turn=7)
    context = before(engine, session, [user("hi"), assistant("hello"), decorated])
    assert context.messages == [user("hi"), assistant("hello"), decorated]
    assert context.tokens == engine.count_tokens(context.messages)
    assert context.prefix_epoch != plain.prefix_epoch
    assert context.cache_hint == 1
    assert engine.messages(session)[-1] == user("do x")


def test_a_second_decoration_wins_over_the_first(engine: Engine, session: Session) -> None:
    request = "please tidy the whole garden before the rain comes"
    stored, newer = user(f"{request}\n[tasks v1]"), user(f"{request}\n[tasks v2]")
    context = Context([stored], engine.count_tokens(stored))
    assert with_live_copies(context, Turn(session, [newer]), engine.count_tokens, 1_000).messages == [newer]
    other = user("what is the weather like in Lisbon?")
    assert with_live_copies(context, Turn(session, [other]), engine.count_tokens, 1_000) is context


def test_the_hosts_calls_and_results_of_the_turn_pass_through(engine: Engine, session: Session) -> None:
    turn = [user("look"), call("c1") | {"x_cost": 3}, result("c1", "seen") | {"x_ms": 12}]
    assert before(engine, session, turn).messages == turn
    assert before(engine, session, [user("look [now]"), *turn[1:]]).messages[0] == user("look [now]")


def test_a_rebuilt_system_message_wins(engine: Engine, session: Session) -> None:
    before(engine, session, [SYSTEM, user("hi"), assistant("hello"), user("more")])
    rebuilt = {"role": "system", "content": "You help. Today is Friday."}
    context = before(engine, session, [rebuilt, user("hi"), assistant("hello"), user("more")])
    assert context.messages[0] == rebuilt
    assert context.tokens == engine.count_tokens(context.messages)


def test_a_copy_that_no_provider_takes_or_that_does_not_fit_is_not_used(
    engine: Engine, session: Session
) -> None:
    stored = [user("look"), call("c1", arguments="{}"), result("c1", "seen")]
    context = Context(stored, engine.count_tokens(stored))
    garbled = [stored[0], call("c1", arguments="{}", text="  "), stored[2]]
    assert with_live_copies(context, Turn(session, garbled), engine.count_tokens, 1_000) is context
    huge = [user("look" + " padding" * 1_000), *stored[1:]]
    assert with_live_copies(context, Turn(session, huge), engine.count_tokens, 1_000) is context


def test_nothing_changes_for_a_host_without_decorations(engine: Engine, session: Session) -> None:
    turn = [user("hi"), assistant("hello"), user("do x")]
    first, again = before(engine, session, turn), before(engine, session, turn)
    assert first == again == engine.assemble(session, 32_000)


def test_an_ignored_session_gets_its_own_list_and_an_event(open_engine: Any) -> None:
    engine = open_engine("ignoring", ignore_session_patterns=["cron:**"])
    events: list[Event] = []
    engine.subscribe(events.append)
    own = [user("poll"), assistant("")]
    context = before(engine, Session("cron:nightly"), own)
    assert context.messages == own
    assert context.tokens > 0
    assert [(e.name, e.fields["reason"]) for e in events] == [("assembly.fallback", "the session is ignored")]
    assert engine.system_note(Session("cron:nightly")) == ""


def test_a_greeting_alone_leaves_the_host_its_own_list(engine: Engine, session: Session) -> None:
    events: list[Event] = []
    engine.subscribe(events.append)
    assert before(engine, session, [assistant("hi")]).messages == [assistant("hi")]
    assert "assembly.fallback" in {event.name for event in events}
