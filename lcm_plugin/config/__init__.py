"""Settings: one model, four sources."""

from lcm_plugin.config.defaults import INSTRUCTION_FILES
from lcm_plugin.config.model import (
    DEFAULT_BUDGET,
    LcmConfig,
    Policy,
    checked_budget,
    default_data_dir,
    setting_names,
    shown_keys,
)
from lcm_plugin.config.overrides import ThresholdMatch, ThresholdOverride

__all__ = [
    "DEFAULT_BUDGET",
    "INSTRUCTION_FILES",
    "LcmConfig",
    "Policy",
    "ThresholdMatch",
    "ThresholdOverride",
    "checked_budget",
    "default_data_dir",
    "setting_names",
    "shown_keys",
]
