"""Makes the images of the Docker backend: from a registry's base image, from debootstrap, or from this interpreter.

The tag is a hash of the sandbox folder and of what the image is made from, so an edited folder is another image. The
programs that run inside are no part of it: a container is sent them when it starts.
"""

import hashlib
import io
import os
import re
import shutil
import subprocess
import sysconfig
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rloo_verify.errors import SandboxError
from rloo_verify.sandbox.bwrap import host_python
from rloo_verify.sandbox.host_packages import installed, paths_of
from rloo_verify.sandbox.settings import Image

REPOSITORY = "rloo-verify"
SOURCES = ("registry", "debian", "host")

_LEFT_OUT = {"site-packages", "dist-packages", "test", "tests", "idlelib", "tkinter", "turtledemo",
             "ensurepip", "lib2to3"}  # fmt: skip
_BUILD_SECONDS = 900
_RECIPE = b"3"  # changes with what this module puts into an image


def tag_of(image: Image, source: str) -> str:
    """`rloo-verify/NAME:SOURCE-HASH`."""
    digest = hashlib.sha256(_RECIPE)
    for path in sorted(image.folder.iterdir()):
        if path.name in ("sandbox.toml", "Dockerfile"):
            digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    if source == "host":
        python = Path(host_python())
        versions = sorted(f"{name}=={found.version}" for name, found in installed(image).items())
        digest.update(f"{python}\0{python.stat().st_mtime_ns}\0{versions}".encode())
    return f"{REPOSITORY}/{image.name}:{source}-{digest.hexdigest()[:12]}"


def find_built(client: Any, image: Image) -> str | None:
    """The tag of an image that the engine has, the most reproducible one first; None where it has none."""
    known = {tag for entry in client.images.list() for tag in entry.tags}
    return next((tag for source in SOURCES if (tag := tag_of(image, source)) in known), None)


def ensure_image(client: Any, image: Image) -> str:
    """An image that the engine has, else one made from this interpreter, which takes seconds and no network.

    Raises:
        SandboxError: It cannot be made.
    """
    return find_built(client, image) or build(client, image, "host")


def build(client: Any, image: Image, source: str) -> str:
    """Makes an image; returns its tag.

    Args:
        client: A Docker client.
        image: The sandbox folder.
        source: `registry` (its Dockerfile), `debian` (debootstrap, needs root), `host` (this interpreter and what it
            links to), or `auto`: the first of them that works.

    Raises:
        SandboxError: It cannot be made.
    """
    if source == "auto":
        return _build_any(client, image)
    tag = tag_of(image, source)
    if source == "registry":
        _build_from_dockerfile(client, image, tag)
        return tag
    with tempfile.TemporaryDirectory(prefix="rloo-verify-image-") as folder:
        archive = Path(folder) / "root.tar"
        if source == "debian":
            cached = cache_folder() / f"{tag.replace('/', '-').replace(':', '-')}.tar"
            archive = _debian_archive(image, cached)
        elif source == "host":
            with tarfile.open(archive, "w") as tar:
                _add_host(tar, paths_of(installed(image).values()))
        else:
            raise SandboxError(f"an image is made from one of {', '.join(SOURCES)} or auto, not {source!r}")
        repository, _, version = tag.partition(":")
        client.api.import_image_from_file(str(archive), repository=repository, tag=version)
    return tag


def cache_folder() -> Path:
    """Where root file systems are kept: `$RLOO_VERIFY_CACHE`, else below the user's cache folder."""
    named = os.environ.get("RLOO_VERIFY_CACHE")
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(named) if named else base / "rloo-verify"


def _build_any(client: Any, image: Image) -> str:
    reasons = []
    for source in SOURCES:
        try:
            return build(client, image, source)
        except SandboxError as error:
            reasons.append(f"{source}: {error}")
    raise SandboxError(f"the image {image.name} cannot be made; {'; '.join(reasons)}")


def _build_from_dockerfile(client: Any, image: Image, tag: str) -> None:
    try:
        client.images.build(path=str(image.folder), tag=tag, rm=True, forcerm=True, timeout=_BUILD_SECONDS)
    except Exception as error:  # the SDK, requests and urllib3 share no base class
        reason = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
        raise SandboxError(f"docker build failed ({reason})") from error


def _debian_archive(image: Image, cached: Path) -> Path:
    """A root file system made with debootstrap, or the one that was made before."""
    if cached.is_file():
        return cached
    if os.geteuid() != 0 or shutil.which("debootstrap") is None:
        raise SandboxError("it needs root and the package `debootstrap`")
    with tempfile.TemporaryDirectory(prefix="rloo-verify-root-") as folder:
        root = Path(folder) / "root"
        command = ["debootstrap", "--variant=minbase", f"--include={','.join(image.packages)}", "bookworm", str(root)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_BUILD_SECONDS, check=False)
        if done.returncode:
            last = (done.stdout + done.stderr).strip().splitlines()[-1:]
            raise SandboxError(f"debootstrap failed: {' '.join(last)}")
        for unused in ("var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "usr/share/man", "usr/share/locale"):
            shutil.rmtree(root / unused, ignore_errors=True)
        cached.parent.mkdir(parents=True, exist_ok=True)
        partial = cached.with_suffix(".partial")
        with tarfile.open(partial, "w") as tar:
            tar.add(root, ".", filter=lambda member: None if member.isdev() else member)
        partial.rename(cached)
    return cached


def _add_host(tar: tarfile.TarFile, packages: list[Path]) -> None:
    """Adds the interpreter, its standard library, packages, the shared libraries of all of them, and a shell."""
    python = Path(host_python())
    library = Path(sysconfig.get_path("stdlib"))
    for folder in (".", "tmp", "dev", "proc", "sys", "etc", "root", "var/tmp"):
        _add_folder(tar, folder)
    programs = [python, *(Path(name).resolve() for name in ("/bin/sh", "/bin/true", "/bin/ls") if Path(name).exists())]
    extensions = [*(library / "lib-dynload").glob("*.so"), *(file for path in packages for file in path.rglob("*.so*"))]
    shared = {path for path in _shared([*programs, *extensions]) if not _within(path, packages)}
    for path in sorted({*programs, *shared}):
        tar.add(path.resolve(), str(path), recursive=False)
    tar.add(library, str(library), filter=_wanted)
    _add_link(tar, "usr/bin/python3", str(python))
    for name in ("sh", "true", "ls"):
        target = Path("/bin", name).resolve()
        if target.exists() and str(target) != f"/bin/{name}":
            _add_link(tar, f"bin/{name}", str(target))
    site = library / "site-packages"
    for path in packages:
        tar.add(path, str(site / path.name), filter=_wanted)


def _within(path: Path, folders: list[Path]) -> bool:
    """Whether a shared library comes with a package, or is an alias of one that does."""
    return any(path.resolve().is_relative_to(folder.resolve()) for folder in folders)


def _wanted(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if Path(member.name).name in _LEFT_OUT or member.name.endswith(".a") else member


def _shared(files: list[Path]) -> Iterator[Path]:
    """The shared libraries of programs and extensions, as `ldd` finds them."""
    seen: set[Path] = set()
    for file in files:
        done = subprocess.run(["ldd", str(file)], capture_output=True, text=True, check=False)
        for name in re.findall(r"(/\S+) \(0x", done.stdout):
            path = Path(name)
            if path not in seen:
                seen.add(path)
                yield path


def _add_folder(tar: tarfile.TarFile, name: str) -> None:
    member = tarfile.TarInfo(name)
    member.type, member.mode = tarfile.DIRTYPE, 0o755
    tar.addfile(member)


def _add_link(tar: tarfile.TarFile, name: str, target: str) -> None:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = tarfile.SYMTYPE, target
    tar.addfile(member, io.BytesIO())
