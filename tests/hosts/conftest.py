"""Tests in a folder ``real`` drive a real host; ``tests/hosts/run.sh`` runs them in its environment."""

from __future__ import annotations

import os

collect_ignore_glob = [] if os.environ.get("TEST_HOST") else ["*/real", "*/real/*"]
