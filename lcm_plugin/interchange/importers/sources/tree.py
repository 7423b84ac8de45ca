"""Splits the tree of an edited chat into its live branch and the abandoned ones.

Agents that let a person edit or go back append to one file: each record names the one before it. The live
branch leads from the newest leaf to the root; each other record lies in one abandoned branch.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from lcm_plugin.interchange.importers.records import SourceConversation


@dataclass(slots=True)
class Tree:
    """Records by id, in file order, in compact form. ``offsets`` find each one in its file."""

    index: dict[str, int] = field(default_factory=dict)
    ids: list[str] = field(default_factory=list)
    parents: list[str | None] = field(default_factory=list)
    offsets: array[int] = field(default_factory=lambda: array("q"))
    numbers: array[int] = field(default_factory=lambda: array("q"))

    def add(self, record_id: str, parent: str | None, offset: int, number: int) -> bool:
        """Adds a record; false for an id that is known already, whose first record counts."""
        if record_id in self.index:
            return False
        self.index[record_id] = len(self.ids)
        self.ids.append(record_id)
        # The parent's own text, so that each id is held once.
        known = None if parent is None else self.index.get(parent)
        self.parents.append(parent if known is None else self.ids[known])
        self.offsets.append(offset)
        self.numbers.append(number)
        return True

    def parent_of(self, position: int) -> int | None:
        """The position of a record's parent; None for a root and where the parent is not in the file."""
        parent = self.parents[position]
        return None if parent is None else self.index.get(parent)

    def link_lost(self, members: Sequence[int]) -> None:
        """Links records whose parent is not in the file to the one before: lines were lost, nothing was edited.

        So is one whose parent comes later: that of a compaction's mark may be a message which it kept and which was
        written again behind it. Where most records name no parent the file has no tree, and all of it is one line.
        """
        without = [at for at in members[1:] if self.parent_of(at) is None]
        flat = 2 * len(without) > len(members) - 1
        for before, at in pairwise(members):
            parent = self.parent_of(at)
            lost = parent is None and (flat or self.parents[at] is not None)
            if lost or (parent is not None and parent >= at):
                self.parents[at] = self.ids[before]

    def branch_of(self, first: int, name: str, key: str = "") -> SourceConversation:
        """The abandoned branch of a session that begins with a record."""
        about = {"branch_of": self.parents[first] or ""}
        return SourceConversation(name, branch=self.ids[first], key=key, live=False, about=about)

    def path(self, leaf: int) -> list[int]:
        """Positions from the root to a leaf. A cycle ends the path."""
        found: list[int] = []
        seen = bytearray(len(self.ids))
        at: int | None = leaf
        while at is not None and not seen[at]:
            seen[at] = True
            found.append(at)
            at = self.parent_of(at)
        return found[::-1]

    def split(
        self, live: set[int], members: set[int], speaking: set[int]
    ) -> tuple[list[int], list[list[int]]]:
        """The live records in file order, and the abandoned branches.

        A branch without a ``speaking`` record is none of its own: it hangs beside the live one.
        """
        chains = list(self.branches(live, members))
        beside = {at for chain in chains if not speaking & set(chain) for at in chain}
        return sorted(live | beside), [sorted(chain) for chain in chains if chain[0] not in beside]

    def branches(self, live: set[int], members: set[int]) -> Iterator[list[int]]:
        """The chains of ``members`` that are not live, each from its first record to its leaf.

        Newest leaf first; a chain ends where it meets what an earlier one holds already.
        """
        # Marks by position: sets of a long log take more memory than all else of the tree.
        taken, has_child = bytearray(len(self.ids)), bytearray(len(self.ids))
        for known in live:
            taken[known] = True
        for member in members:
            if (above := self.parent_of(member)) is not None:
                has_child[above] = True
        aside = sorted(members - live, reverse=True)
        # Records of a cycle have no leaf; the newest of them stands in for it.
        for leaf in [*(one for one in aside if not has_child[one]), *aside]:
            chain: list[int] = []
            at: int | None = leaf
            while at is not None and at in members and not taken[at]:
                taken[at] = True
                chain.append(at)
                at = self.parent_of(at)
            if chain:
                yield chain[::-1]
