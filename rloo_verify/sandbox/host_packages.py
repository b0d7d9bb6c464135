"""Python packages of this interpreter that a sandbox gets to see: pytest, and what an image's sandbox.toml names."""

from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

from rloo_verify.errors import SandboxError
from rloo_verify.sandbox.settings import Image

_NO_MODULES = ("..", "__pycache__")


def installed(image: Image) -> dict[str, metadata.Distribution]:
    """The distributions of an image, and what they require, by name. pytest is left out where it is not installed.

    Raises:
        SandboxError: One that the image names is not installed.
    """
    found: dict[str, metadata.Distribution] = {}
    _collect(image.distributions, found, needed_by=image.name)
    try:
        _collect(["pytest"], found, needed_by=image.name)
    except SandboxError:
        found = {name: found[name] for name in found if name != "pytest"}
    return found


def paths_of(distributions: Iterable[metadata.Distribution]) -> list[Path]:
    """The folders and modules of distributions at the top of a folder of packages, each once."""
    paths: set[Path] = set()
    for distribution in distributions:
        tops = {file.parts[0] for file in distribution.files or ()}
        kept = {top for top in tops if top not in _NO_MODULES and not top.endswith((".dist-info", ".pth"))}
        paths |= {Path(str(distribution.locate_file(top))) for top in kept}
    return sorted(path for path in paths if path.exists())


def _collect(names: Iterable[str], found: dict[str, metadata.Distribution], *, needed_by: str) -> None:
    for name in names:
        if name in found:
            continue
        try:
            found[name] = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            raise SandboxError(
                f"the sandbox {needed_by} needs the package {name}, which this Python lacks: pip install {name}, "
                "or make its Docker image with `rloo-verify sandbox build --from registry` or `--from debian`"
            ) from None
        required = [Requirement(text) for text in found[name].requires or ()]
        wanted = [one.name for one in required if one.marker is None or one.marker.evaluate({"extra": ""})]
        _collect(wanted, found, needed_by=needed_by)
