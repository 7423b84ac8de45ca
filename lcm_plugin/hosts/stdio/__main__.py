"""What the plugins of hosts in JavaScript start: ``python -m lcm_plugin.hosts.stdio opencode [--database PATH|URL]``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping

from lcm_plugin.config.file import load_config
from lcm_plugin.hosts.openclaw.methods import OpenclawMethods
from lcm_plugin.hosts.opencode.methods import OpencodeMethods
from lcm_plugin.hosts.stdio.lines import Method
from lcm_plugin.hosts.stdio.serve import serve
from lcm_plugin.plugin import LcmPlugin

_METHODS: dict[str, Callable[[LcmPlugin], Mapping[str, Method]]] = {
    "opencode": lambda plugin: OpencodeMethods(plugin).all(),
    "openclaw": lambda plugin: OpenclawMethods(plugin).all(),
}


def main(arguments: list[str]) -> None:
    """Serves one host until it closes the connection."""
    parser = argparse.ArgumentParser("lcm_plugin.hosts.stdio", description=__doc__)
    parser.add_argument("host", choices=sorted(_METHODS))
    parser.add_argument("--database")
    asked = parser.parse_args(arguments)
    config = load_config(**({"database": asked.database} if asked.database else {}))
    serve(config, _METHODS[asked.host])


if __name__ == "__main__":
    main(sys.argv[1:])
