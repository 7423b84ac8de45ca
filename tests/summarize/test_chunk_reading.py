"""What one reading of a chunk costs in objects, and that the quick way to a sentence's facts is the same as the slow one."""

from __future__ import annotations

import gc

from hypothesis import given
from hypothesis import strategies as st

from lcm_plugin.evaluation.corpus import Corpus
from lcm_plugin.summarize.base import SourceBlock
from lcm_plugin.summarize.cues import CUE_WORDS
from lcm_plugin.summarize.extraction.reading import read
from lcm_plugin.summarize.extractive import NO_FOCUS
from lcm_plugin.summarize.facts import Vocabulary

_WORDS = st.one_of(
    st.sampled_from(
        [
            "Anna",
            "error",
            "x=error",
            "Error:",
            "decided,",
            "a(b,c)",
            "8f3a",
            "###STOP###",
            "请确认结果",
            "キャッシュ",
        ]
    ),
    st.text(min_size=1, max_size=12).filter(lambda text: text.split() == [text]),
)


@given(st.lists(_WORDS, max_size=12))
def test_a_sentences_facts_are_those_of_its_words_one_by_one(sentence: list[str]) -> None:
    vocabulary = Vocabulary()
    facts: dict[str, int] = {}
    cues = 0
    for place, word in enumerate(map(vocabulary.__getitem__, sentence)):
        if word is not None:
            cues |= word.cue
            if place or not word.plain:
                facts |= dict(word.facts)

    assert vocabulary.facts(sentence) == (facts, cues)
    assert list(vocabulary.facts(sentence)[0]) == list(facts)


def test_one_word_as_fact_keeps_its_cue_whichever_word_brings_it() -> None:
    cue = CUE_WORDS["error"]

    assert Vocabulary().facts(["an", "error", "x=error"]) == ({"error": 1}, cue)
    assert Vocabulary().facts(["an", "x=error", "error"]) == ({"error": 1}, cue)


def test_a_reading_keeps_fewer_objects_for_the_collector_than_a_fifth_of_its_units() -> None:
    blocks = tuple(
        SourceBlock(f"msg_{number}", message["role"], message["content"], number, number)
        for number, message in enumerate(Corpus(1).messages(60))
    )
    vocabulary = Vocabulary()
    read(blocks, vocabulary, NO_FOCUS)
    gc.collect()
    gc.disable()
    try:
        before = len(gc.get_objects())
        scored = read(blocks, vocabulary, NO_FOCUS)
        made = len(gc.get_objects()) - before
    finally:
        gc.enable()

    assert len(scored.texts) > 800
    assert made < len(scored.texts) / 5
