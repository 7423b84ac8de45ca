"""Settings of hermes-lcm, an older engine for the same host, which names its variables ``LCM_…`` as well."""

from __future__ import annotations

from collections.abc import Sequence

INSTEAD = {
    "LCM_CONDENSATION_FANIN": "condensedMinFanout",
    "LCM_MAX_ASSEMBLY_TOKENS": "maxAssemblyTokenBudget",
    "LCM_EXPANSION_TIMEOUT_MS": "delegationTimeoutMs",
    "LCM_LARGE_OUTPUT_EXTERNALIZATION_THRESHOLD_CHARS": "largeFileTokenThreshold, in tokens",
    "LCM_LARGE_OUTPUT_EXTERNALIZATION_PATH": "largeFilesDir",
    "LCM_LARGE_OUTPUT_EXTERNALIZATION_ENABLED": "",
    "LCM_LARGE_OUTPUT_TRANSCRIPT_GC_ENABLED": "",
    "LCM_DYNAMIC_LEAF_CHUNK_ENABLED": "",
    "LCM_DYNAMIC_LEAF_CHUNK_MAX": "",
    "LCM_CACHE_FRIENDLY_CONDENSATION_ENABLED": "",
    "LCM_CACHE_FRIENDLY_MIN_DEBT_GROUPS": "",
    "LCM_DEFERRED_MAINTENANCE_ENABLED": "",
    "LCM_DEFERRED_MAINTENANCE_MAX_PASSES": "",
    "LCM_L2_BUDGET_RATIO": "",
    "LCM_L3_TRUNCATE_TOKENS": "",
    "LCM_RESERVE_TOKENS_FLOOR": "",
    "LCM_EXTRACTION_ENABLED": "",
    "LCM_EXTRACTION_MODEL": "",
    "LCM_EXTRACTION_OUTPUT_PATH": "",
    "LCM_DOCTOR_CLEAN_APPLY_ENABLED": "",
    "LCM_ENABLE_SLASH_COMMAND": "",
}
"""Variables that only hermes-lcm has, and the setting here that is for the same; empty where there is none.

The others are read here, too: a name, a meaning.
"""


def told_once(variables: Sequence[str]) -> str:
    """One sentence about those variables of hermes-lcm that are set and do nothing here."""
    named = [f"{name} (here {INSTEAD[name]})" if INSTEAD[name] else name for name in variables]
    return f"settings of hermes-lcm that do nothing here: {', '.join(named)}"
