"""What somebody typed, as units to look for."""

from __future__ import annotations

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from lcm_plugin.recall.match import Matcher
from lcm_plugin.recall.query import parse_query


def units(text: str) -> list[tuple[str, str]]:
    return [(unit.kind, unit.text) for unit in parse_query(text).units]


def finds(pattern: str, text: str) -> bool:
    matcher = Matcher(parse_query(pattern))
    return matcher.accepts(matcher.find(text))


def test_function_words_are_dropped() -> None:
    assert units("What did they do at the museum?") == [("word", "museum")]


def test_function_words_stay_when_there_is_nothing_else() -> None:
    assert units("who are you") == [("word", "who"), ("word", "are"), ("word", "you")]


@pytest.mark.parametrize(
    "written",
    ["my-proxy", "10:30", "src/a/b.py", "C++", "foo_bar", "v1.2.3", "50%", "--force", "@user", "🚀", "don't"],
)
def test_words_with_signs_are_looked_for_as_written(written: str) -> None:
    assert units(written) == [("exact", written.lower())]
    assert finds(written, f"so we said {written}, and went on")
    assert finds(written, f"SO WE SAID {written.upper()}")


@pytest.mark.parametrize(
    ("written", "other"),
    [
        ("my-proxy", "my new proxy"),
        ("foo_bar", "fooXbar"),
        ("50%", "50 of 100"),
        ("C++", "the letter C"),
        ("10:30", "10 minutes, 30 seconds"),
        ("src/a/b.py", "src a b.py"),
    ],
)
def test_words_with_signs_do_not_match_their_pieces(written: str, other: str) -> None:
    assert not finds(written, other)


def test_a_sentence_mark_is_no_part_of_a_word() -> None:
    assert units("Museum? (museum), museum!") == [("word", "museum")]


def test_a_possessive_is_its_word() -> None:
    assert units("Caroline's lamp") == [("word", "caroline"), ("word", "lamp")]


def test_every_form_of_a_word_matches() -> None:
    assert finds("painting", "She painted a lot")
    assert finds("run", "they ran home")
    assert not finds("paint", "a pained look")


def test_diacritics_and_case_are_folded() -> None:
    assert finds("CAFÉ zoe", "at the cafe")
    assert finds("cafe", "Zoë, au CAFÉ")


def test_a_quoted_phrase_is_exact() -> None:
    assert finds('"red lamp"', "the Red\n lamp fell")
    assert not finds('"red lamp"', "a lamp that is red")
    assert not finds('"red lamp"', "infrared lamps")


def test_quotes_round_one_word_change_nothing() -> None:
    assert units('when did "Caroline" paint') == units("when did Caroline paint")
    assert units('"when" "did" "Caroline" "paint?"') == units("when did Caroline paint?")


def test_one_quoted_word_alone_is_exact() -> None:
    assert finds('"paint"', "the paint is dry")
    assert not finds('"paint"', "she painted")


def test_several_quoted_phrases_are_exact() -> None:
    assert units('"red lamp" "old boat"') == [("exact", "red lamp"), ("exact", "old boat")]


@pytest.mark.parametrize("text", ["静默", "静", "默", "静默模"])
def test_chinese_is_found_inside_a_run(text: str) -> None:
    assert finds(text, "把静默模式打开")


def test_a_mixed_query_needs_all_its_parts() -> None:
    assert finds("机器人 发布", "发布新的机器人")
    assert not finds("机器人 发布", "新的机器人")
    assert not finds("部署 docker", "部署完成")


def test_a_single_letter_finds_itself_only() -> None:
    assert finds("S", "Plan S is on")
    assert not finds("S", "no such letter alone")
    assert not finds("s", "")


def test_operators_are_only_words() -> None:
    assert units("lamp OR bottle") == [("word", "lamp"), ("word", "bottle")]
    assert units("NEAR(lamp)")[0] == ("exact", "near(lamp")
    assert finds("lamp NOT bottle", "a lamp and a bottle")


@pytest.mark.parametrize("text", ["", "  ", '""', '"', "*", "???", "( ) [ ]", "^", "."])
def test_nothing_to_look_for(text: str) -> None:
    assert units(text) == []


@pytest.mark.parametrize("pattern", ["A|B|C", "foo.*bar", r"\d+ items", "^start", "(?i)x", "[a-z]+"])
def test_a_regex_is_recognised(pattern: str) -> None:
    assert parse_query(pattern).looks_like_regex


@pytest.mark.parametrize("pattern", ["C++", "what is this?", "a (b) c", "50%", "[photo: x]", "cost in US$"])
def test_plain_text_is_no_regex(pattern: str) -> None:
    assert not parse_query(pattern).looks_like_regex


@settings(deadline=None, max_examples=examples(60))
@given(st.text(max_size=60), st.text(max_size=60))
def test_no_input_raises(pattern: str, text: str) -> None:
    query = parse_query(pattern)
    matches = Matcher(query).find(text)
    for start, end in matches.sorted_spans:
        assert 0 <= start < end <= len(text)


@settings(deadline=None, max_examples=examples(100))
@given(
    st.lists(
        st.sampled_from(["lamp", "river", "seven", "stone", "glass"]), min_size=1, max_size=4, unique=True
    ),
    st.data(),
)
def test_dressing_up_words_does_not_change_them(words: list[str], data: st.DataObject) -> None:
    dress = data.draw(st.sampled_from(["{}", "{}?", "({})", "{}, ", "'{}'", "{}!!", "**{}**", "{};"]))
    joined = data.draw(st.sampled_from([" ", " OR ", " and ", " , "]))
    dressed = joined.join(dress.format(word) for word in words)
    if data.draw(st.booleans()):
        dressed = dressed.upper()
    assert {unit.text for unit in parse_query(dressed).units} == set(words)
