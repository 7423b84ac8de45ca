"""The replay's report: the figures as one object, and as a page that a person enjoys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from lcm_plugin.cli.replay.proof import Proof
from lcm_plugin.summarize.base import extracted
from lcm_plugin.types import Context

if TYPE_CHECKING:
    from rich.console import Console, RenderableType


@dataclass(slots=True)
class ContextFigures:
    """Figures about the contexts that the host was given, in tokens by its own count.

    One context was assembled before each model answer; ``incomplete_contexts`` left something out for lack of room;
    ``context_tokens_final`` is the size of the context after the last message.
    """

    contexts: int = 0
    context_tokens_max: int = 0
    context_tokens_final: int = 0
    over_budget_contexts: int = 0
    incomplete_contexts: int = 0
    invalid_contexts: int = 0
    faults: list[str] = field(default_factory=list)

    def add(self, context: Context, tokens: int, budget: int, faults: Sequence[str]) -> None:
        """Counts one context."""
        self.contexts += 1
        self.context_tokens_final = tokens
        self.context_tokens_max = max(self.context_tokens_max, tokens)
        self.over_budget_contexts += context.over_budget or tokens > budget
        self.incomplete_contexts += bool(context.notices)
        self.invalid_contexts += bool(faults)
        self.faults.extend(faults[: 5 - len(self.faults)])


@dataclass(frozen=True, slots=True)
class Report:
    """The figures of a replay.

    ``tokens_in`` is the whole transcript; ``fallback_summaries`` were extracted where a model was to write them,
    ``fallback_causes`` says how many for what; ``cpu_seconds`` are the whole process's, which a busy machine does not
    change.
    """

    files: tuple[str, ...]
    session: str
    database: str
    messages: int
    resumed_at: int
    turns: int
    tokens_in: int
    budget: int
    figures: ContextFigures
    summaries_by_depth: Mapping[int, int]
    fallback_summaries: int
    fallback_causes: Mapping[str, int]
    balanced: bool
    proof: Proof
    seconds: float
    cpu_seconds: float

    @property
    def holds(self) -> bool:
        """Whether everything that a replay is to show was shown."""
        sound = not self.figures.invalid_contexts and not self.figures.over_budget_contexts
        return sound and self.balanced and self.proof.complete

    @property
    def saved(self) -> float:
        """Share of the raw tokens that the final context does without."""
        return 1 - self.figures.context_tokens_final / self.tokens_in if self.tokens_in else 0.0

    def as_dict(self) -> dict[str, Any]:
        """The report as one flat JSON object."""
        values = asdict(self)
        proof: dict[str, Any] = values.pop("proof")
        figures: dict[str, Any] = values.pop("figures")
        return {
            **values,
            **figures,
            "recovered": proof["recovered"],
            "recovered_through_summaries": proof["through_summaries"],
            "extra_messages": proof["extra"],
            "first_missing": proof["first_missing"],
            "summaries_by_depth": {str(depth): count for depth, count in self.summaries_by_depth.items()},
            "saved_share": round(self.saved, 4),
            "seconds": round(self.seconds, 3),
            "cpu_seconds": round(self.cpu_seconds, 3),
            "ok": self.holds,
        }


def print_report(console: Console, report: Report, tree: RenderableType, lcm_says: str) -> None:
    """The report for a person."""
    from rich.markdown import Markdown
    from rich.panel import Panel

    console.print()
    console.print(
        Panel(_figures(report), title="[bold]replay[/bold]", title_align="left", border_style="dim")
    )
    console.print(Panel(tree, title="[bold]the summary DAG[/bold]", title_align="left", border_style="dim"))
    console.print(
        Panel(Markdown(lcm_says), title="[bold]/lcm[/bold]", title_align="left", border_style="dim")
    )
    console.print(_verdict(report))


def _figures(report: Report) -> RenderableType:
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim")
    table.add_column()
    resumed = f", of which {report.resumed_at:,} were stored before" if report.resumed_at else ""
    table.add_row(
        "in", f"{report.messages:,} messages in {report.turns:,} turns, {report.tokens_in:,} tokens{resumed}"
    )
    table.add_row("largest context", _gauge(report.figures.context_tokens_max, report.budget))
    table.add_row(
        "final context", f"{report.figures.context_tokens_final:,} tokens, {report.saved:.0%} less than all"
    )
    table.add_row("contexts", _contexts(report))
    table.add_row("summaries", _summaries(report))
    table.add_row(
        "time", f"{report.seconds:.1f} s, {report.messages / max(report.seconds, 1e-9):,.0f} messages/s"
    )
    return table


def _contexts(report: Report) -> str:
    incomplete = (
        f", {report.figures.incomplete_contexts:,} left something out"
        if report.figures.incomplete_contexts
        else ""
    )
    return f"{report.figures.contexts:,} assembled, {report.figures.invalid_contexts:,} invalid{incomplete}"


def _gauge(tokens: int, budget: int) -> str:
    filled = min(24, round(24 * tokens / budget))
    return f"{tokens:,} of {budget:,} tokens [cyan]{'█' * filled}[/cyan][dim]{'░' * (24 - filled)}[/dim]"


def _summaries(report: Report) -> str:
    if not report.summaries_by_depth:
        return "none was needed"
    names = [f"{count:,} at depth {depth}" for depth, count in sorted(report.summaries_by_depth.items())]
    if report.fallback_summaries:
        names.append(f"of them {extracted(report.fallback_causes)}")
    return ", ".join(names)


def _verdict(report: Report) -> str:
    from rich.markup import escape

    proof = report.proof
    line = (
        f"{proof.recovered:,} of {proof.expected:,} messages came back byte for byte "
        f"from the context ({proof.through_summaries:,} of them through summaries)."
    )
    if report.holds:
        return f"[bold green]✔[/bold green] {line}"
    reasons = [line] if not proof.complete else []
    if proof.first_missing is not None:
        reasons.append(f"The first one missing is number {proof.first_missing + 1}.")
    if report.figures.over_budget_contexts:
        reasons.append(f"{report.figures.over_budget_contexts:,} contexts were over the budget.")
    if report.figures.invalid_contexts:
        reasons.append(
            f"{report.figures.invalid_contexts:,} contexts were invalid: {escape('; '.join(report.figures.faults))}."
        )
    if not report.balanced:
        reasons.append("The tree is not balanced.")
    return f"[bold red]✘[/bold red] {' '.join(reasons)}"
