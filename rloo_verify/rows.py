"""Reads the rows of a split, one dict at a time, from a hub data set, a local file or a generator function.

A source is `hf:repo:config:split`, `py:file.py:function`, or the path of a .jsonl, .json or .parquet file (JSON may be
gzipped). JSON is read with Python's own parser because Arrow and pandas overflow on integers over 64 bits.

`datasets` and `pyarrow` are imported where they are needed only: verifier workers load this module.
"""

import gzip
import importlib.util
import inspect
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

from rloo_verify.errors import TaskError

Row = dict[str, Any]

FORMATS = ".jsonl, .jsonl.gz, .json, .json.gz or .parquet"


def read_rows(
    source: str, *, folder: Path, split: str, options: Mapping[str, Any] | None = None, drop: Collection[str] = ()
) -> Iterator[Row]:
    """Yields the rows of one source in order, each read once.

    Args:
        source: `hf:repo:config:split`, `py:file.py:function` or a path.
        folder: What relative paths are relative to, the task's folder.
        split: Name of the split; a generator function receives it as its first argument.
        options: Further keyword arguments of a generator function.
        drop: Columns to leave out, for instance long solutions that no prompt or checker uses.

    Raises:
        TaskError: The source cannot be found, reached or parsed.
    """
    rows: Iterable[Any]
    if source.startswith("hf:"):
        rows = _hub_rows(source, drop)
    elif source.startswith("py:"):
        rows = _generated_rows(source, folder, split, options or {})
    else:
        rows = _file_rows(folder / source)
    for index, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise TaskError(f"{source}: row {index} is {type(row).__name__}, not an object with named columns")
        yield {name: value for name, value in row.items() if name not in drop}


def load_function(reference: str, folder: Path) -> Callable[..., Any]:
    """Loads `file.py:function` from a task folder.

    Raises:
        TaskError: There is no such file or function, or importing the file fails.
    """
    file_name, _, function_name = reference.partition(":")
    path = folder / file_name
    if not path.is_file() or not function_name:
        raise TaskError(f"`{reference}` should be file.py:function, but {path} is not a file or no function is named")
    spec = importlib.util.spec_from_file_location(f"rloo_verify_task_{folder.name}_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # a task's file may fail in any way
        raise TaskError(f"{path} cannot be imported: {type(error).__name__}: {error}") from error
    function = getattr(module, function_name, None)
    if not callable(function):
        raise TaskError(f"{path} has no function `{function_name}`")
    return cast(Callable[..., Any], function)


def _generated_rows(source: str, folder: Path, split: str, options: Mapping[str, Any]) -> Iterable[Any]:
    function = load_function(source.removeprefix("py:"), folder)
    parameters = list(inspect.signature(function).parameters)[1:]
    unknown = [name for name in options if name not in parameters]
    if unknown:
        raise TaskError(f"{source} has no option `{unknown[0]}`; it takes {', '.join(parameters) or 'none'}")
    try:
        yield from function(split, **options)
    except (ValueError, TypeError) as error:
        raise TaskError(f"{source} refused split `{split}` with options {dict(options)}: {error}") from error


def _file_rows(path: Path) -> Iterable[Any]:
    if not path.is_file():
        raise TaskError(f"no such data file: {path}")
    suffixes = [suffix.lower() for suffix in path.suffixes]
    kind = suffixes[-2:-1] if suffixes[-1:] == [".gz"] else suffixes[-1:]
    try:
        if kind in ([".jsonl"], [".ndjson"]):
            yield from _json_lines(path)
        elif kind == [".json"]:
            yield from _json_document(path)
        elif suffixes[-1:] == [".parquet"]:
            yield from _parquet_rows(path)
        else:
            raise TaskError(f"{path} is not a data file that can be read: use {FORMATS}")
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise TaskError(f"{path} cannot be read: {error}") from error


def _open(path: Path) -> IO[str]:
    # utf-8-sig: files saved on Windows may begin with a byte order mark, which json refuses
    if path.suffix.lower() == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig")
    return path.open(encoding="utf-8-sig")


def _json_lines(path: Path) -> Iterator[Any]:
    with _open(path) as lines:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                try:
                    yield json.loads(line)
                except ValueError as error:
                    raise TaskError(f"{path}, line {number} is not JSON: {error}") from error


def _json_document(path: Path) -> Iterable[Any]:
    with _open(path) as file:
        text = file.read()
    try:
        document = json.loads(text)
    except ValueError as error:
        if "Extra data" in str(error):  # JSON lines under the name .json
            return _json_lines(path)
        raise TaskError(f"{path} is not JSON: {error}") from error
    if isinstance(document, dict):
        lists = [value for value in document.values() if isinstance(value, list)]
        document = lists[0] if len(lists) == 1 else document
    if not isinstance(document, list):
        raise TaskError(f"{path} should hold a JSON list of rows, or an object with one such list")
    return document


def _parquet_rows(path: Path) -> Iterator[Any]:
    import pyarrow
    import pyarrow.parquet

    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=1024):
                yield from batch.to_pylist()
    except pyarrow.ArrowInvalid as error:
        raise TaskError(f"{path} cannot be read as parquet: {error}") from error


def _hub_rows(source: str, drop: Collection[str]) -> Iterator[Row]:
    parts = source.removeprefix("hf:").split(":", 2)  # a split may hold a colon: train[:500]
    if len(parts) != 3 or not parts[0] or not parts[2]:
        raise TaskError(f"`{source}` should be hf:repo:config:split, for instance hf:openai/gsm8k:main:train")
    repository, configs, hub_split = parts
    for config in configs.split("+"):
        data = _load_hub_dataset(source, repository, config, hub_split)
        data = data.remove_columns([name for name in data.column_names if name in drop])
        for batch in data.iter(batch_size=1000):  # whole batches decode several times faster than single rows
            for values in zip(*batch.values(), strict=True):
                yield dict(zip(batch, values, strict=True))


def _load_hub_dataset(source: str, repository: str, config: str, hub_split: str) -> Any:
    import datasets

    try:
        with _no_retries_without_network():
            return datasets.load_dataset(repository, config or None, split=hub_split)
    except Exception as error:  # datasets, the hub client and its HTTP library share no base class
        reason = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
        raise TaskError(
            f"cannot load {source} from the hub ({reason}): pass a local copy with `--data FILE`"
            " (`data` in a config), or use the split `sample`, which ships with the task"
        ) from error


@contextmanager
def _no_retries_without_network() -> Iterator[None]:
    """Hub client in offline mode while its host has no address: else it retries for half a minute before it fails.

    In offline mode it still reads what it has in its cache.
    """
    import socket
    from urllib.parse import urlsplit
    from urllib.request import getproxies

    import datasets.config
    from huggingface_hub import constants

    try:
        if not getproxies():  # behind a proxy only the proxy resolves names
            socket.getaddrinfo(urlsplit(constants.ENDPOINT).hostname, None)
        reachable = True
    except OSError:
        reachable = False
    before = constants.HF_HUB_OFFLINE, datasets.config.HF_HUB_OFFLINE
    try:
        if not reachable:
            constants.HF_HUB_OFFLINE = datasets.config.HF_HUB_OFFLINE = True
        yield
    finally:
        constants.HF_HUB_OFFLINE, datasets.config.HF_HUB_OFFLINE = before
