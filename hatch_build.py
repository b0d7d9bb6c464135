"""Puts tasks, sandboxes and configs inside the package of a wheel; an editable install finds them in the checkout."""

from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class DataFolders(BuildHookInterface):  # type: ignore[type-arg]
    """Force-includes the three data folders as `rloo_verify/_tasks`, `_sandboxes` and `_configs`."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Adds the folders unless the build is editable (`version == "editable"`)."""
        if version != "editable":
            for folder in ("tasks", "sandboxes", "configs"):
                build_data["force_include"][folder] = f"rloo_verify/_{folder}"
