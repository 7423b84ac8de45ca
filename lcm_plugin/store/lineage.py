"""Depths of summaries that were stored without one, from who was made of whom.

Databases of older tools have no depth, or one that means something else. A leaf has depth 0, a condensed summary
one more than the deepest of its sources, and 1 when its sources are gone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lcm_plugin.errors import InputError


def depths_from_lineage(sources: Mapping[str, Sequence[str]], leaves: frozenset[str]) -> dict[str, int]:
    """The depth of every summary.

    ``sources`` holds for each summary the summaries that it was made from, ``leaves`` those made from messages. A
    source that is not itself a summary here is passed over. Raises `InputError` naming a summary that is
    made from itself.
    """
    depths = dict.fromkeys(leaves & sources.keys(), 0)
    for start in sources:
        path: list[str] = [start]
        open_now = {start}
        while path:
            node = path[-1]
            known = [source for source in sources[node] if source in sources]
            missing = next((source for source in known if source not in depths), None)
            if node in depths or missing is None:
                depths.setdefault(node, max((depths[source] + 1 for source in known), default=1))
                open_now.discard(path.pop())
            elif missing in open_now:
                raise InputError(f"summary {missing} is made from itself")
            else:
                path.append(missing)
                open_now.add(missing)
    return depths
