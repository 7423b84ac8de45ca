"""Lossless Context Management as a plugin folder of Hermes Agent.

The folder is the way in; the work is done by the package ``lcm_plugin``, which must be installed in
the Python environment that runs Hermes.
"""

from .adapter import register

__all__ = ["register"]
