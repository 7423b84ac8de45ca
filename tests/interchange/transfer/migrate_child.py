"""A copy that dies by SIGKILL once so many rows are copied: ``python migrate_child.py FROM TO ROWS``."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from lcm_plugin import Engine, LcmConfig
from lcm_plugin.interchange.transfer import batches
from lcm_plugin.interchange.transfer.migrate import Side, migrate
from lcm_plugin.interchange.transfer.payloads import PayloadPlace
from lcm_plugin.services import payload_folder
from lcm_plugin.store.open import open_store

batches.MOST_ROWS = 7


@contextmanager
def deadly(title: str, total: int, unit: str) -> Iterator[Callable[[int], None]]:
    def tell(done: int) -> None:
        if title == "copying" and done >= int(sys.argv[3]):
            os.kill(os.getpid(), signal.SIGKILL)

    yield tell


def side(database: str) -> Side:
    config = LcmConfig(database=database)
    engine = Engine(config, open_store(config, unfinished=True))
    return Side(engine.store, PayloadPlace(payload_folder(config, engine.store)), engine.check)


migrate(side(sys.argv[1]), side(sys.argv[2]), deadly)
