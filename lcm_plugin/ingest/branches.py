"""What a host's whole list takes back and brings back, and where its running turn stands.

The host's list is the truth about the end of the talk. Every row knows the row before it in the list that brought
it (`MessageHead.before`), so the rows of a conversation are a tree, and a list is a path in it. Where a list goes on
behind its last stored message, other rows that went on from there are withdrawn; where it goes on as withdrawn rows
did, these come back. What two runs say at the same time stands on two paths, and neither withdraws the other.
docs/sessions.md has the table of what a list can look like.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from lcm_plugin.ingest.alignment import Alignment
from lcm_plugin.ingest.known_lists import Beginning
from lcm_plugin.ingest.matching import Incoming, is_proof, is_request, is_said, is_summary, may_be_same
from lcm_plugin.lru import LruCache
from lcm_plugin.messages.blocks import is_instruction
from lcm_plugin.store.records import MessageHead
from lcm_plugin.types import RunPosition

RowsAfter = Callable[[int], list[MessageHead]]
_MOST_RUNS = 1_024


@dataclass(frozen=True, slots=True)
class Ground:
    """What is known of a conversation before a list is compared with it.

    ``next_seq`` is where the next row goes, ``first`` the seq of the first talk that stands, None when it lies
    too far back. ``root`` is the seq behind which this run's lists began, None for a run without earlier lists.
    ``ends``: the host says that nothing follows the list's last message. ``begun`` is what is known of the messages
    before those that are compared.
    """

    next_seq: int
    first: int | None
    root: int | None
    rows_after: RowsAfter
    ends: bool = False
    begun: Beginning | None = None


@dataclass(frozen=True, slots=True)
class Branch:
    """A list's effect. ``follows`` goes to the first new row, ``root`` is the seq behind which the list begins.

    ``seqs`` are the rows of its messages by place, empty when they are not sure. ``names`` are the host's ids of rows,
    by message id, that are brought back under them.
    """

    new: list[int]
    withdrawn: tuple[MessageHead, ...] = ()
    restored: tuple[MessageHead, ...] = ()
    follows: int | None = None
    root: int | None = None
    run: RunPosition | None = None
    seqs: Mapping[int, int] = field(default_factory=dict)
    names: Mapping[int, str] = field(default_factory=dict)

    @property
    def changes(self) -> bool:
        """Whether rows are withdrawn or come back."""
        return bool(self.withdrawn or self.restored)


class ListRoots:
    """Where the lists of each run of a host began, as far as this process saw them. Thread-safe.

    A list with nothing but a new question takes back what the run's earlier lists held, and not what the store
    knows from elsewhere: an earlier process, an import, a parent.
    """

    def __init__(self) -> None:
        self._roots: LruCache[tuple[int, str | None], int] = LruCache(_MOST_RUNS)

    def root(self, conversation_id: int, run: str | None) -> int | None:
        """The seq behind which the run's lists began."""
        return self._roots.get((conversation_id, run))

    def note(self, conversation_id: int, run: str | None, root: int | None) -> None:
        """A list that begins behind ``root`` is stored."""
        if root is None:
            return
        key = (conversation_id, run)
        self._roots.put(key, min(root, self._roots.get(key, root)))


def follow_list(items: Sequence[Incoming], alignment: Alignment, ground: Ground) -> Branch:
    """What a list that was aligned withdraws, brings back and adds."""
    path = _Path(items, alignment, ground)
    if path.last is None:
        return path.branch((), ())
    path.walk()
    restored = path.restored()
    if not path.goes_on and not restored and not ground.ends:
        return path.branch((), ())
    if not path.is_trusted:
        return Branch(alignment.new)
    return path.branch(path.gone(restored), restored)


class _Path:
    """A list as a path through the stored rows."""

    def __init__(self, items: Sequence[Incoming], alignment: Alignment, ground: Ground) -> None:
        self._items = items
        self._ground = ground
        self._rows = dict(alignment.rows)
        self._new = list(alignment.new)
        self._begins_anew = False
        talk = [index for index, row in self._rows.items() if not is_instruction(row.role)]
        self._end = max(talk, default=-1)
        self.last = self._rows[self._end].seq if talk else self._fresh_start(alignment.edited is not None)
        self._after = self._rows_after(self.last) if self.last is not None else []

    @property
    def goes_on(self) -> bool:
        """Whether something new follows the last stored message."""
        return any(index > self._end for index in self._new)

    @property
    def is_trusted(self) -> bool:
        """Whether the stored messages are surely those of the list: small talk alone is no proof in a short list."""
        if self._ground.begun:
            return True
        pairs = [(self._items[index], row) for index, row in self._rows.items()]
        first = min(
            (row.seq for row in self._rows.values() if not is_instruction(row.role)),
            default=self._ground.first,
        )
        return self._begins_anew or first == self._ground.first or any(is_proof(*pair) for pair in pairs)

    def walk(self) -> None:
        """Finds among the new messages those that went on here before and were withdrawn."""
        went_on = {(row.before, row.identity): row for row in self._after if row.withdrawn_at is not None}
        for index in [index for index in self._new if index > self._end]:
            row = went_on.get((self.last or 0, self._items[index].identity))
            if row is None or not may_be_same(self._items[index], row):
                return
            self._rows[index] = row
            self._new.remove(index)
            self._end, self.last = index, row.seq

    def restored(self) -> list[MessageHead]:
        """The withdrawn rows that the list has again, in order."""
        return sorted(
            (row for row in self._rows.values() if row.withdrawn_at is not None), key=lambda row: row.seq
        )

    def gone(self, restored: Sequence[MessageHead]) -> list[MessageHead]:
        """The rows that went on where the list goes on otherwise."""
        last = self.last or 0
        base = min([last, *(row.before for row in restored)])
        rows = self._rows_after(base)
        path = {row.seq for row in self._rows.values()}
        forks: dict[int, tuple[int, MessageHead]] = {}
        for row in rows:
            if row.seq not in path:
                forks[row.seq] = forks.get(row.before, (row.before, row))
        passed_over = {
            item.identity
            for index, item in enumerate(self._items)
            if not item.ours and index not in self._rows and index not in self._new
        }
        goes_on = next((self._items[index] for index in self._new if index > self._end), None)
        # A whole list leaves no room for another run beside it.
        answers = goes_on is not None and not _speaks(goes_on) and not self._ground.ends
        gone = []
        for row in rows:
            if row.seq in path or row.hidden or is_instruction(row.role) or row.identity in passed_over:
                continue
            fork, first = forks[row.seq]
            beside = answers and first.speaks
            if fork < base or (beside and self._ran_then(first, rows, last, bool(restored))):
                continue
            gone.append(row)
        return gone

    def branch(self, withdrawn: Sequence[MessageHead], restored: Sequence[MessageHead]) -> Branch:
        """The list's effect, when all that was found holds."""
        newest = self._ground.next_seq - 1
        follows = self.last if self.goes_on and self.last is not None and self.last != newest else None
        seqs = {index: row.seq for index, row in self._rows.items()}
        seqs |= {index: newest + 1 + n for n, index in enumerate(self._new)}
        before = [row.before for row in self._rows.values() if not is_instruction(row.role)]
        if self._new:
            before.append(newest if follows is None else follows)
        begun = self._ground.begun
        if begun and begun.known.root is not None:
            before.append(begun.known.root)
        return Branch(
            self._new,
            tuple(withdrawn),
            tuple(restored),
            follows,
            min(before, default=None),
            self._running_turn(seqs, follows),
            seqs if self.is_trusted else {},
            self._names(restored),
        )

    def _names(self, restored: Sequence[MessageHead]) -> dict[int, str]:
        """The host's ids under which rows come back, where another version had them meanwhile."""
        ids = {row.seq: self._items[index].host_id for index, row in self._rows.items()}
        return {row.message_id: name for row in restored if (name := ids[row.seq]) and name != row.host_id}

    def _running_turn(self, seqs: dict[int, int], follows: int | None) -> RunPosition | None:
        """Where the list's running turn stands; other runs may store rows between its own and behind them."""
        asked = next((index for index in sorted(seqs, reverse=True) if is_request(self._items[index])), None)
        if asked is None:
            began = self._ground.begun and self._ground.begun.run
            return RunPosition(began.fork, began.turn, self._end_of_turn(seqs)) if began and seqs else None
        turn = seqs[asked]
        if asked in self._rows:
            start = self._rows[asked].before
        else:
            start = turn - 1 if follows is None or asked != self._new[0] else follows
        fork = max((seq for index, seq in seqs.items() if index < asked), default=start)
        return RunPosition(fork, turn, self._end_of_turn(seqs))

    def _end_of_turn(self, seqs: dict[int, int]) -> int | None:
        """The row with which a stored list ends that waits for an answer."""
        index = max(seqs)
        waits = (
            index == len(self._items) - 1 and index in self._rows and self._items[index].role != "assistant"
        )
        return seqs[index] if waits else None

    def _ran_then(self, first: MessageHead, rows: Sequence[MessageHead], last: int, restored: bool) -> bool:
        """Whether the list's running turn was not answered yet when another one began with ``first``."""
        if not restored:
            return first.before == last
        return not any(row.before == last and row.seq < first.seq for row in rows)

    def _fresh_start(self, is_edited: bool) -> int | None:
        """Behind which row a list begins that has nothing of the store; None when it is no such list."""
        if is_edited:
            self._begins_anew = True
            return self._ground.root
        talk = [item for item in self._items if not item.ours and not is_instruction(item.role)]
        if self._ground.root is None or not self._new or not talk or len(talk) < len(self._items_not_ours()):
            return None
        if not _speaks(talk[0]) or is_summary(talk[0]):
            return None
        self._begins_anew = True
        return self._ground.root

    def _items_not_ours(self) -> list[Incoming]:
        return [item for item in self._items if not is_instruction(item.role)]

    def _rows_after(self, seq: int) -> list[MessageHead]:
        return self._ground.rows_after(seq) if seq < self._ground.next_seq - 1 else []


def _speaks(item: Incoming) -> bool:
    return is_request(item) and is_said(item)
