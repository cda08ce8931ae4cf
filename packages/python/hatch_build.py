"""Gives a wheel that carries the binary of the server the tag of its platform."""

import pathlib
import sysconfig
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PlatformTag(BuildHookInterface[Any]):
    """Sets the tag of the wheel. Without a binary, the wheel stays a wheel for all platforms."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Looks for the binary, which `cargo xtask package` puts into the source folder."""
        if pathlib.Path(self.root, "src/pintle/bin/pintle").exists():
            platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{platform}"
