"""Under which session key a lane of another tool is kept."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lcm_plugin.errors import InputError
from lcm_plugin.interchange.importers.records import Lane

ID = "{id}"


@dataclass(frozen=True, slots=True)
class Keys:
    """Makes session keys. ``template`` is what a person asked for; ``{id}`` in it is the source's session id."""

    format: str
    template: str = ""

    def of(self, lane: Lane) -> str:
        """A lane's key: as asked for, else the source's own, else one of the format and its id."""
        base = self._base(lane.name, lane.key)
        return f"{base}:sub:{lane.sub}" if lane.sub else base

    def of_parent(self, lane: Lane) -> str:
        """The key of the session for which a sub-agent worked; empty when it is none."""
        return self._base(lane.parent, lane.parent if lane.key else "") if lane.parent else ""

    def check(self, names: Iterable[str]) -> None:
        """Raises `InputError` when one key is asked for and there is more than one session."""
        count = len(set(names))
        if self.template and ID not in self.template and count > 1:
            raise InputError(
                f"--session {self.template!r} is one key, and there are {count} sessions to import: "
                f"put {ID} into it, or leave it out"
            )

    def _base(self, name: str, own: str) -> str:
        if self.template:
            return self.template.replace(ID, name)
        return own or f"agent:{self.format}:{name}"
