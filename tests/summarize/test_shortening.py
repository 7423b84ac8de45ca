"""What a model reads of long messages before it summarises them."""

from __future__ import annotations

from collections.abc import Callable

from model_bench import GOOD, Bench, block, work

from lcm_plugin.messages.tokens import TokenCounter
from lcm_plugin.summarize.base import SourceBlock, SummaryTask
from lcm_plugin.summarize.facts import Vocabulary
from lcm_plugin.summarize.focus import Focus
from lcm_plugin.summarize.shortening import WHOLE_RESULT, WHOLE_WORDS, shortened

MakeTask = Callable[..., SummaryTask]
FILLER = "They walked along the quiet shore and talked about this and that for a while. "
KEY = "The deploy of harbour-api 4.2.17 failed with error E4711 on host db-03. "
LOG = "compiling another small part of the tree\n"


def read(counter: TokenCounter, *blocks: SourceBlock, target: int = 100, focus: str = "") -> list[str]:
    source = sum(counter.text(one.text) for one in blocks)
    return [one.text for one in shortened(blocks, source, target, Vocabulary(), Focus(focus))]


def test_a_long_answer_keeps_its_beginning_its_end_and_what_tells_most_between(counter: TokenCounter) -> None:
    said = "It began at noon. " + FILLER * 150 + KEY + FILLER * 250 + "So it stands."
    (text,) = read(counter, block(0, "assistant", said))
    assert counter.text(text) <= WHOLE_WORDS * 1.1
    assert text.startswith("It began at noon.")
    assert KEY.strip() in text
    assert text.endswith("So it stands.")
    assert "characters left out, but for:" in text


def test_a_long_result_keeps_errors_and_how_it_ended(counter: TokenCounter) -> None:
    output = (
        "$ make all\n"
        + LOG * 400
        + "src/quay.c:88: error: unknown type crane_t\n"
        + LOG * 400
        + "exit code: 2"
    )
    (text,) = read(counter, block(0, "tool", output, "bash"))
    assert counter.text(text) <= WHOLE_RESULT * 1.1
    assert text.startswith("$ make all")
    assert "src/quay.c:88: error: unknown type crane_t" in text
    assert text.endswith("exit code: 2")


def test_what_is_not_long_is_read_whole(counter: TokenCounter) -> None:
    blocks = [block(n, "user", f"{n}: {FILLER * 40}") for n in range(20)]
    assert read(counter, *blocks, target=100) == [one.text for one in blocks]


def test_one_long_message_is_read_as_far_as_its_summary_has_room(counter: TokenCounter) -> None:
    said = "".join(f"Line {n} says {n * 7919 % 1000}. " for n in range(4_000))
    (short,), (long,) = (read(counter, block(0, "user", said), target=target) for target in (300, 900))
    assert counter.text(short) < 0.5 * counter.text(long) < counter.text(said)
    assert read(counter, block(0, "user", said), target=counter.text(said) // 10) == [said]


def test_the_longest_give_way_first(counter: TokenCounter) -> None:
    middling, long = FILLER * 120, FILLER * 900
    first, second = read(counter, block(0, "user", middling), block(1, "user", long), target=500)
    assert first == middling
    assert len(second) < len(long) / 2


def test_summaries_are_never_shortened(counter: TokenCounter) -> None:
    blocks = [block(n, "summary", FILLER * 200) for n in range(4)]
    assert read(counter, *blocks, target=100) == [one.text for one in blocks]


def test_what_a_focus_asks_for_is_kept(counter: TokenCounter) -> None:
    crates = "".join(f"Bay {n} got crate C-{n * 7919} from Rotterdam. " for n in range(300))
    said = f"{crates}Somebody fed the pelican again. {crates.replace('Bay', 'Pier')}"
    assert "pelican" not in read(counter, block(0, "assistant", said))[0]
    assert "pelican" in read(counter, block(0, "assistant", said), focus="pelican")[0]


def test_a_model_reads_the_short_form_and_only_the_end_of_the_summary_before(
    bench: Bench, make_task: MakeTask, counter: TokenCounter
) -> None:
    blocks = (*work(6), block(60, "tool", "start\n" + LOG * 2_000 + "exit code: 2", "bash"))
    before = "\n".join(f"In week {n} the vault got bay {n}." for n in range(200))
    draft = bench.run(make_task(blocks, previous=f"{before}\nExpand for details about: bay 7"), GOOD)
    assert draft is not None
    asked = "\n".join(str(message["content"]) for message in bench.server.requests[-1].messages)
    assert counter.text(asked) < 4_500 < counter.text(LOG * 2_000)
    assert "exit code: 2" in asked
    assert "In week 199 the vault got bay 199.\n</previous>" in asked
    assert "In week 150 " not in asked
    assert "Expand for details about: bay 7" not in asked
