"""Where the data folders of the project are: in a checkout, or inside an installed wheel."""

from pathlib import Path


def data_folder(name: str) -> Path:
    """The folder `tasks`, `sandboxes` or `configs`: beside the package in a checkout, `_<name>` inside a wheel."""
    package = Path(__file__).parent
    packaged = package / f"_{name}"
    return packaged if packaged.is_dir() else package.parent / name
