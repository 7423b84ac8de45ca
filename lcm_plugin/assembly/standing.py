"""The standing layer: what stands before the talk in every context, with a budget of its own.

It holds the host's instructions in force, in the host's order, and after them those from further on in the talk
whose place is not shown: their neighbourhood was compacted, pruned by ``/new``, or left out. Pins follow, and
the newest plan whose turn was compacted. Nothing here is ever summarised away; instructions and pins that do not fit
are named.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass

from lcm_plugin.assembly.render import Rendered, Renderer
from lcm_plugin.sessions.standing_rows import StandingRows
from lcm_plugin.store.protocol import Reader
from lcm_plugin.store.records import Item, MessageHead


@dataclass(frozen=True, slots=True)
class Layer:
    """What stands before the talk, and the refs of what did not fit: instructions and pins, oldest first."""

    shown: tuple[Rendered, ...] = ()
    left_out: tuple[str, ...] = ()
    pins_left_out: tuple[str, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether everything that should stand here does."""
        return not self.left_out and not self.pins_left_out

    @property
    def tokens(self) -> int:
        """What it costs."""
        return sum(one.tokens for one in self.shown)


NO_LAYER = Layer()


class StandingLayer:
    """One conversation's candidates for the layer; those whose place in the talk is shown stay there."""

    def __init__(
        self,
        reader: Reader,
        renderer: Renderer,
        standing: StandingRows,
        plan: Rendered | None,
    ) -> None:
        conversation, rows = standing.conversation, standing.instructions
        heads = {head.seq: head for head, _ in rows}
        in_force = conversation.instruction_seqs
        if missing := [seq for seq in in_force if seq not in heads]:
            found = reader.messages_at(conversation.conversation_id, missing)
            heads |= {stored.head.seq: stored.head for stored in found if not stored.head.hidden}
        self._leading = _rendered(reader, renderer, [heads[seq] for seq in in_force if seq in heads])
        later = [head for head, _ in rows if head.seq not in in_force]
        self._later = _rendered(reader, renderer, later)
        self._plan = [plan] if plan else []
        self._pins = [renderer.pin(pin) for pin in standing.pins]
        self._raw = {head.seq for head, raw in rows if raw and head.seq not in in_force}
        self._said = {head.seq: head.identity for head in heads.values()}

    def layer(self, budget: int, in_place: Container[int]) -> Layer:
        """The layer within a budget: the host's instructions first, then pins, then later ones, then the plan.

        ``in_place`` are the ordinals of those that are shown where they stand in the talk.
        """
        moved = self._moved(in_place)
        taken: list[str] = []
        for one in (*self._leading, *self._pins, *reversed(moved), *self._plan):
            if one.tokens <= budget:
                taken.append(one.ref)
                budget -= one.tokens
        instructions = (*self._leading, *moved)
        left_out = sorted((one for one in instructions if one.ref not in taken), key=lambda one: one.ordinal)
        return Layer(
            tuple(one for one in (*instructions, *self._pins, *self._plan) if one.ref in taken),
            tuple(one.ref for one in left_out),
            tuple(one.ref for one in self._pins if one.ref not in taken),
        )

    @property
    def raw(self) -> set[int]:
        """The ordinals of later instructions that stand raw in the context."""
        return self._raw

    def _moved(self, in_place: Container[int]) -> list[Rendered]:
        """Later instructions that stand in the layer: those with the same words once, and not when they are shown."""
        seen = {self._said[one.ordinal] for one in self._leading}
        seen |= {self._said[one.ordinal] for one in self._later if one.ordinal in in_place}
        moved = []
        for one in self._later:
            if one.ordinal not in in_place and (said := self._said[one.ordinal]) not in seen:
                seen.add(said)
                moved.append(one)
        return moved


def _rendered(reader: Reader, renderer: Renderer, heads: Sequence[MessageHead]) -> list[Rendered]:
    items = [Item(head.seq, "message", head.tokens, message=head) for head in heads]
    return [one for one in renderer.render(reader, items) if one is not None]
