"""Pictures that stand on a page themselves: small ones, of kinds that hold nothing but a picture."""

from __future__ import annotations

import base64

from lcm_plugin.errors import LcmError
from lcm_plugin.files.externalise import PayloadStore
from lcm_plugin.interchange.export.views import Block
from lcm_plugin.store.protocol import Reader

MOST_BYTES = 256 * 1024
MOST_BYTES_OF_ALL = 16 * 1024 * 1024
KINDS = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})


class Pictures:
    """Gives each picture as an address that holds its bytes, until a page has enough of them."""

    def __init__(self, reader: Reader, payloads: PayloadStore | None) -> None:
        self._reader = reader
        self._payloads = payloads
        self._left = MOST_BYTES_OF_ALL

    def address(self, block: Block) -> str:
        """The ``data:`` address of a block's picture; empty when it is none, too large, or gone."""
        if self._payloads is None or not block.file_id:
            return ""
        record = self._reader.file(block.file_id)
        if record is None or record.mime_type not in KINDS or record.byte_size > min(MOST_BYTES, self._left):
            return ""
        try:
            data = self._payloads.read_file(self._reader, block.file_id)
        except LcmError:
            return ""
        self._left -= len(data)
        return f"data:{record.mime_type};base64,{base64.b64encode(data).decode()}"
