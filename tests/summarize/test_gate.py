"""Which texts pass the gate. The model's text is judged against the source that it would replace."""

from __future__ import annotations

import pytest
from model_bench import GOOD, work

from lcm_plugin.messages.tokens import TokenCounter
from lcm_plugin.summarize.facts import Vocabulary
from lcm_plugin.summarize.gate import Gate, Limits, Verdict, _Runs, cut_at_sentence
from lcm_plugin.summarize.prompts import PromptParts, frame
from lcm_plugin.summarize.source import CUT_MARK
from lcm_plugin.summarize.unwrap import unwrap

SOURCE = "\n".join(item.text for item in work(12))
FRAME = frame(PromptParts(depth=0, aggressive=False, target=300, span="", source=""))


def check(
    counter: TokenCounter, text: str, source: str = SOURCE, target: int = 300, cap: int = 900
) -> Verdict:
    tokens = counter.text(source)
    limits = Limits(tokens, target, min(cap, tokens - 1))
    return Gate(counter, Vocabulary()).check(text, source, FRAME, limits)


def test_a_good_summary_passes_unchanged(counter: TokenCounter) -> None:
    assert check(counter, GOOD) == Verdict(GOOD, counter.text(GOOD))


@pytest.mark.parametrize(
    "opening",
    [
        "Error E17 came up for inv-1.pdf in customer 1's move to archive-1, and E27 for inv-2.pdf in archive-2's. ",
        "Unauthorized access was not the cause; E17 to E127 were checksum errors of inv-1.pdf to inv-12.pdf. ",
        "Thanks for the archive-1 move were noted; archive-2, inv-3.pdf and /srv/in/4 followed after E47. ",
        "Sorry was said for E17 in inv-1.pdf; archive-3 and /srv/in/4 went through at the first attempt. ",
        "The assistant refused: it said it could not delete /srv/in/1. It copied to archive-1 first; E17, E27. ",
        "Okay was given for archive-1, archive-2 and /srv/in/3 before E37 came up for inv-3.pdf in the run. ",
    ],
)
def test_a_summary_may_tell_of_errors_refusals_and_courtesies(counter: TokenCounter, opening: str) -> None:
    assert check(counter, opening + GOOD).reason == ""
    assert check(counter, opening).reason == ""


@pytest.mark.parametrize(
    "text",
    [
        "Zusammengefasst: Der Nutzer bat darum, die Rechnungen der Kunden 1 bis 12 in archive-1 bis archive-12 zu "
        "verschieben; für inv-1.pdf meldete rsync E17, danach lief alles durch.",
        "用户要求将客户1到12的发票移动到 archive-1 至 archive-12。rsync 对 inv-1.pdf 报告了校验错误 E17，随后重试成功。",
        "طلب المستخدم نقل فواتير العملاء 1 إلى 12 إلى archive-1 وما بعده، وظهر الخطأ E17 في inv-1.pdf ثم نجحت الإعادة.",
    ],
)
def test_a_summary_in_another_language_than_its_source_passes(counter: TokenCounter, text: str) -> None:
    assert check(counter, text).reason == ""


def test_a_part_of_the_prompt_is_no_summary(counter: TokenCounter) -> None:
    assert check(counter, FRAME).reason == "prompt_echo"
    assert check(counter, FRAME[: len(FRAME) // 2]).reason == "prompt_echo"


def test_an_echo_with_changed_signs_is_still_an_echo(counter: TokenCounter) -> None:
    copied = SOURCE[: len(SOURCE) // 2].replace(".", " -").replace("\n", " | ")
    assert check(counter, copied).reason == "echo"


def test_quoting_a_few_sentences_is_no_echo(counter: TokenCounter) -> None:
    lines = SOURCE.splitlines()
    quoting = f"{GOOD}\nThe first request was: {lines[0]}\nThe first outcome was: {lines[5]}"
    assert check(counter, quoting).reason == ""


def test_a_text_as_long_as_its_source_is_rejected(counter: TokenCounter) -> None:
    source = (
        "We met at noon in Lisbon and talked about the harbour, the ferry and Ana's exhibition for an hour."
    )
    longer = (
        "At noon there was a meeting in Lisbon. The participants talked about the harbour of the city, about the "
        "ferry that crosses it, and about the exhibition of Ana, which took about one hour altogether."
    )
    assert check(counter, longer, source=source).reason == "not_smaller"


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("<think>a</think>Real text", "Real text"),
        ("<THINKING>\na\n</THINKING>\n\nReal text", "Real text"),
        ("a b c</think>Real text", "Real text"),
        ("Real text <think>and then", "Real text"),
        ("◁think▷x◁/think▷Real text", "Real text"),
        (
            "<|channel|>analysis<|message|>hm<|end|><|channel|>final<|message|>Real text<|return|>",
            "Real text",
        ),
        ("<|channel|>analysis<|message|>hm", ""),
        ("```markdown\nReal text\n```", "Real text"),
        ("<summary>\nReal text\n</summary>", "Real text"),
        ('{"summary": "Real text"}', "Real text"),
        ("[{'type': 'text', 'text': 'Real text'}]", "Real text"),
        ("**Summary:** Real text", "Real text"),
        ("## Summary\n\nReal text", "Real text"),
        (
            "Of course! Here is a concise summary of the chat:\n\nReal text\n\nWould you like more detail?",
            "Real text",
        ),
        ("Real text<|im_end|>", "Real text"),
        ("Real \ud83d text\x00", "Real ? text"),
        ("[Real text in brackets]", "[Real text in brackets]"),
        ("{not json at all", "{not json at all"),
    ],
)
def test_the_summary_is_found_inside_what_the_model_wrote(raw: str, text: str) -> None:
    assert unwrap(raw)[0] == text


def test_a_cut_keeps_whole_sentences_in_any_script(counter: TokenCounter) -> None:
    for sentence in (
        "The ferry left the harbour at nine. ",
        "渡轮在九点离开了港口。",
        "Паром ушёл из порта в девять. ",
    ):
        cut = cut_at_sentence(sentence * 100, 60, counter)
        assert counter.text(cut) <= 60
        kept = cut.removesuffix(CUT_MARK).strip()
        assert kept
        assert kept[-1] in ".。"


def test_a_text_without_sentences_is_cut_at_a_word(counter: TokenCounter) -> None:
    cut = cut_at_sentence("harbour ferry " * 300, 60, counter)
    assert 30 <= counter.text(cut) <= 60
    assert cut.removesuffix(CUT_MARK).split()[-1] in {"harbour", "ferry"}


@pytest.mark.parametrize("copied", [0, 20, 60, 65, 68, 70, 72, 75, 90, 95, 100])
@pytest.mark.parametrize("length", [30, 200])
def test_a_quick_look_never_changes_what_is_a_copy(copied: int, length: int) -> None:
    source = [f"word{number}" for number in range(900)]
    text: list[str] = []
    for start in range(0, 800, length):
        piece = source[start : start + length]
        text += piece if len(text) < 8 * copied else piece[::-1]
    runs = _Runs(text)
    known = {tuple(source[start : start + 10]) for start in range(len(source) - 9)}
    shared = [tuple(text[start : start + 10]) in known for start in range(len(text) - 9)]
    share = sum(shared) / len(shared)
    for wanted in (0.05, 0.25, 0.5, 0.7, 0.9, 1.0):
        assert runs.reaches(wanted, " ".join(source)) == (share >= wanted)


def test_a_text_that_nobody_copied_is_told_without_cutting_its_source_into_words(
    counter: TokenCounter, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut: list[int] = []
    written = _Runs._written

    def counted(self: _Runs, other: str) -> str:
        cut.append(len(other))
        return written(self, other)

    monkeypatch.setattr(_Runs, "_written", counted)
    assert check(counter, GOOD).reason == ""
    assert cut == []
    assert check(counter, SOURCE[: len(SOURCE) // 2]).reason == "echo"
    assert len(cut) == 1
