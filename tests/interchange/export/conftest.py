"""Tests in ``browser`` drive a real Chromium; ``make test-browser`` runs them in an environment of their own."""

from __future__ import annotations

import os

collect_ignore = [] if os.environ.get("TEST_BROWSER") else ["browser"]
