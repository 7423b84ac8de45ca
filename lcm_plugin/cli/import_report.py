"""What ``lcm import`` prints: at most seven lines, and with ``--verbose`` a line a file, conversation and remark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lcm_plugin.cli.output import moment, print_pairs, print_table, print_text, say
from lcm_plugin.text import plural

if TYPE_CHECKING:
    from lcm_plugin.interchange.importers.native import NativeReport
    from lcm_plugin.interchange.importers.report import ConversationReport, FileReport

_KINDS = ("session", "branch", "fork", "sub-agent")


def print_outcome(reports: Sequence[FileReport], unknown: Sequence[str], *, applied: bool) -> None:
    """The whole run in six lines at most; one when everything was known."""
    spoken = [report for report in reports if report.has_talk]
    new, known = (sum(report.total(name) for report in reports) for name in ("new", "known"))
    if reports and not new and not any(report.broken_count for report in reports):
        say(f"Nothing new in {plural(len(reports), 'file')}: {plural(known, 'row')} here already.")
        return
    messages, hidden, summaries = (
        sum(report.total(name) for report in spoken) for name in ("messages", "hidden", "summaries")
    )
    conversations = [one for report in spoken for one in report.conversations]
    stored = f"{plural(messages, 'message')} and {plural(hidden, 'record')} beside the talk"
    if summaries:
        stored = (
            f"{plural(messages, 'message')}, {plural(summaries, 'summary')} and {plural(hidden, 'record')}"
        )
    pairs = [
        ("stored" if applied else "would store", stored),
        ("from", f"{plural(len(spoken), 'file')}: {_kinds(conversations)}, {_period(conversations)}"),
        ("known", f"{plural(known, 'row')} here already"),
    ]
    if tokens := sum(report.total("tokens") for report in spoken):
        pairs.append(("tokens", f"{tokens:,}"))
    if left := _left_out(reports, unknown):
        pairs.append(("left out", left))
    if broken := sum(report.broken_count for report in reports):
        pairs.append(("broken", f"{plural(broken, 'place')} cannot be read"))
    print_pairs(pairs)


def print_details(reports: Sequence[FileReport], unknown: Sequence[str]) -> None:
    """Each file with its conversations and remarks, and the files that no format knows."""
    from lcm_plugin.interchange.importers.formats import why_unknown

    rows = [
        (
            report.path,
            report.format,
            f"{report.total('messages'):,}",
            f"{report.total('hidden'):,}",
            f"{report.total('known'):,}",
            f"{len(report.conversations):,}",
            f"{report.broken_count:,}",
        )
        for report in reports
    ]
    columns = ("file", "format", "messages", "records", "known", "conversations", "broken")
    print_table(columns, rows, yields="file")
    lanes = [
        (one.kind, one.key, f"{one.messages:,}", f"{one.known:,}", moment(one.latest), one.title)
        for report in reports
        for one in report.conversations
    ]
    print_table(("kind", "session key", "messages", "known", "until", "title"), lanes, yields="title")
    for report in reports:
        _print_remarks(report)
    for path in unknown:
        print_text(f"left out, {why_unknown(Path(path)) or 'no format known'}: {path}")


def print_native(report: NativeReport, *, applied: bool) -> None:
    """An export of this package."""
    print_text(f"{report.path} (lcm)")
    counts = {"message": report.messages, "summary": report.summaries, "file": report.files}
    held = ", ".join(plural(count, noun) for noun, count in counts.items())
    pairs = [("the file holds", held)]
    pairs.append(("stored" if applied else "would store", plural(report.conversations, "conversation")))
    if report.known:
        pairs.append(("known", f"{report.known:,} conversations are here already"))
    if report.archived:
        pairs.append(("archived", f"{report.archived:,} whose key has an active conversation here"))
    print_pairs(pairs)


def _print_remarks(report: FileReport) -> None:
    for broken in report.broken:
        print_text(f"  {report.place(broken)}")
    if report.unfinished:
        print_text(f"  {report.path}, line {report.unfinished}: not finished, left for the next import")
    if not report.has_talk:
        print_text(f"  {report.path}: left out, {report.why_left_out}")
    for counts in (report.repeats, report.dropped):
        for kind, count in counts.most_common():
            print_text(f"  {report.path}: {count:,} left out: {kind}")
    for one in report.conversations:
        for note in one.notes:
            print_text(f"  {one.key}: {note}")


def _left_out(reports: Sequence[FileReport], unknown: Sequence[str]) -> str:
    """What is not stored, by reason; -v names it."""
    counts = (
        ("repeated record", "", _total(report.repeats for report in reports)),
        ("record", " of requests and listings", _total(report.dropped for report in reports)),
        ("unfinished last line", "", sum(bool(report.unfinished) for report in reports)),
        ("file", " without a message", sum(not report.has_talk for report in reports)),
        ("file", " of no known format", len(unknown)),
    )
    said = ", ".join(f"{plural(count, noun)}{which}" for noun, which, count in counts if count)
    return f"{said} (-v names them)" if said else ""


def _total(counters: Iterable[Counter[str]]) -> int:
    return sum(counter.total() for counter in counters)


def _period(conversations: Sequence[ConversationReport]) -> str:
    begins = [one.earliest for one in conversations if one.earliest is not None]
    ends = [one.latest for one in conversations if one.latest is not None]
    return f"{moment(min(begins, default=None))} to {moment(max(ends, default=None))}"


def _kinds(conversations: Sequence[ConversationReport]) -> str:
    counts = Counter(one.kind for one in conversations)
    return ", ".join(plural(counts[kind], kind) for kind in _KINDS if counts[kind]) or "no conversation"
