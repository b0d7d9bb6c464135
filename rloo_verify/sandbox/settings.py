"""Where and how programs run: `[sandbox]` of a config, a sandbox folder's `sandbox.toml`, and the limits of one run."""

import tomllib
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, cast, get_args

from rloo_verify.errors import ConfigError
from rloo_verify.folders import data_folder

Backend = Literal["auto", "docker", "bwrap"]

MAX_MEMORY_MIB = 2048
"""No program may ask for more than this."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one run of a program may use.

    Attributes:
        cpu_seconds: CPU time of the program and all that it starts. The limit that decides.
        wall_seconds: Wall time without waiting for a core; None is twice the CPU time and one second. It ends
            programs that sleep.
        memory_mib: Resident memory, in MiB, of the program and all that it starts.
        processes: Processes and threads.
        output_bytes: Standard output and standard error, each.
        value_bytes: A returned value in its encoding.
        file_mib: Size of a file that the program writes, in MiB.
        open_files: Open descriptors.
    """

    cpu_seconds: float = 4.0
    wall_seconds: float | None = None
    memory_mib: int = 512
    processes: int = 64
    output_bytes: int = 1 << 20
    value_bytes: int = 16 << 20
    file_mib: int = 16
    open_files: int = 256

    def as_request(self) -> dict[str, Any]:
        """The limits as the controller takes them."""
        wall = 2.0 * self.cpu_seconds + 1.0 if self.wall_seconds is None else self.wall_seconds
        return {**asdict(self), "wall_seconds": wall, "memory_mib": min(self.memory_mib, MAX_MEMORY_MIB)}


@dataclass(frozen=True, slots=True)
class SandboxSettings:
    """Where untrusted programs run.

    Attributes:
        backend: `docker`, `bwrap`, or `auto`: Docker where an engine answers and has the image or can make it, else
            bubblewrap.
        runtime: OCI runtime of the Docker backend, for instance `runsc`.
        containers: Containers that are kept warm; those above the number of programs at a time are spares.
        image: Name of the sandbox folder.
        unsafe: Run programs as ordinary processes where neither backend can be used. Marked in every verdict.
        runs_per_container: A container is replaced after so many runs.
        seconds_per_container: A container is replaced after this age.
        live_tests: Whether tasks that ask for it may run tests in the program's process (`checkers.code`).
    """

    backend: Backend = "auto"
    runtime: str = "runc"
    containers: int = 2
    image: str = "python"
    unsafe: bool = False
    runs_per_container: int = 2_000
    seconds_per_container: float = 1_800.0
    live_tests: bool = True


@dataclass(frozen=True, slots=True)
class Image:
    """A sandbox folder: `sandbox.toml`, `Dockerfile`, `README.md`.

    Attributes:
        name: Name of the folder.
        folder: The folder.
        summary: One line for people.
        python: The interpreter inside.
        preimport: Modules that the zygote imports once, so that no test pays for them.
        packages: Debian packages beside Python where the image is made with debootstrap.
        distributions: Python packages of this interpreter that programs see under bubblewrap and in an image that is
            made from this interpreter.
    """

    name: str
    folder: Path
    summary: str = ""
    python: str = "python3"
    preimport: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    distributions: tuple[str, ...] = ()


_LISTS = ("preimport", "packages", "distributions")


def backend_of(name: str, option: str) -> Backend:
    """The value of a command line's option.

    Raises:
        ConfigError: There is no such backend.
    """
    for known in get_args(Backend):
        if name == known:
            return cast(Backend, known)
    raise ConfigError(f"{option} {name}: must be one of {', '.join(get_args(Backend))}")


def find_image(name: str) -> Image:
    """Reads a sandbox folder, by its name or its path.

    Raises:
        ConfigError: There is no such sandbox, or its sandbox.toml is wrong.
    """
    folder = Path(name) if "/" in name else data_folder("sandboxes") / name
    try:
        text = (folder / "sandbox.toml").read_text(encoding="utf-8")
        table = tomllib.loads(text)
    except OSError:
        known = ", ".join(image_names()) or "none"
        raise ConfigError(f"no sandbox is named {name!r}; the sandboxes are: {known}") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{folder / 'sandbox.toml'} is not TOML: {error}") from error
    lists = {key: tuple(table.get(key, ())) for key in _LISTS}
    keys = ("summary", "python", *_LISTS)
    if unknown := sorted(set(table) - set(keys)):
        raise ConfigError(f"{folder / 'sandbox.toml'}: unknown key {unknown[0]!r}; use {', '.join(keys)}")
    return Image(folder.name, folder, table.get("summary", ""), table.get("python", "python3"), **lists)


def image_names() -> list[str]:
    """The sandbox folders that ship with the project."""
    return sorted(path.parent.name for path in data_folder("sandboxes").glob("*/sandbox.toml"))


_in_force = SandboxSettings()


def use_settings(settings: SandboxSettings) -> None:
    """Says how the code checker of this process opens sandboxes; call it before the first check."""
    global _in_force
    _in_force = settings


def settings_in_force(image: str) -> SandboxSettings:
    """What `use_settings` said, for one image."""
    return replace(_in_force, image=image)
