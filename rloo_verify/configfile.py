"""Reads and writes config files: TOML plus dotted command-line overrides, with errors that name file, line and key."""

import difflib
import re
import tomllib
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, get_args

import tomli_w
from pydantic import BaseModel, ValidationError

from rloo_verify.config import Config, KeyFaultError
from rloo_verify.errors import ConfigError
from rloo_verify.folders import data_folder


def find_config(name: str) -> Path:
    """The file of a config given as a path or as the name of a built-in one (`quickstart`).

    Raises:
        ConfigError: if there is neither; names the built-in ones.
    """
    if Path(name).is_file():
        return Path(name)
    folder = data_folder("configs")
    builtin = folder / f"{Path(name).name.removesuffix('.toml')}.toml"
    if Path(name).parent in (Path(), Path("configs")) and builtin.is_file():
        return builtin
    known = ", ".join(sorted(file.stem for file in folder.glob("*.toml")))
    raise ConfigError(f"no config file {name}; give the path of a TOML file or a built-in name: {known}")


def load_config(path: Path, overrides: Sequence[str] = ()) -> Config:
    """Reads a TOML file, applies overrides such as `["--run.steps", "50"]`, and validates everything.

    Raises:
        ConfigError: with one line per fault: file, line, key, what is wrong, and the nearest known key.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from None
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from None
    given = dict(parse_overrides(overrides))
    for keys, value in given.items():
        _set(values, keys, _parse_value(value))
    try:
        return Config.model_validate(values)
    except ValidationError as error:
        faults = error.errors()
    for fault in faults:  # where text is wanted, `--run.name 2026-01-31` is text, though TOML calls it a date
        keys = tuple(map(str, fault["loc"]))
        if fault["type"] == "string_type" and keys in given:
            _set(values, keys, given[keys])
    try:
        return Config.model_validate(values)
    except ValidationError as error:
        lines = [_explain(fault, path, text, set(given)) for fault in error.errors()]
        raise ConfigError("\n".join(dict.fromkeys(lines))) from None


def parse_overrides(arguments: Sequence[str]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yields `(key path, text of the value)` from `--a.b value` and `--a.b=value`.

    Raises:
        ConfigError: on an argument that is not a dotted option, or an option without a value.
    """
    rest = list(arguments)
    while rest:
        argument = rest.pop(0)
        name, equals, value = argument.removeprefix("--").partition("=")
        if not argument.startswith("--") or "." not in name:
            raise ConfigError(f"unknown argument {argument}; config overrides look like --run.steps 50")
        if not equals:
            if not rest or rest[0].startswith("--"):
                raise ConfigError(f"{argument} has no value; config overrides look like --run.steps 50")
            value = rest.pop(0)
        yield tuple(name.split(".")), value


def _parse_value(text: str) -> Any:
    """A value from the command line: TOML where it is TOML, else a string."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def dump_config(config: Config) -> str:
    """The resolved config as TOML that `load_config` reads back to the same values."""
    return tomli_w.dumps(config.model_dump(mode="json", exclude_none=True))


def changed_keys(old: Config, new: Config) -> list[str]:
    """Dotted keys whose values differ, with both values, for people: `learner.lr: 1e-06 -> 2e-06`."""
    before, after = dict(_flatten(old.model_dump())), dict(_flatten(new.model_dump()))
    return [
        f"{key}: {before.get(key)} -> {after.get(key)}"
        for key in dict.fromkeys([*before, *after])
        if before.get(key) != after.get(key)
    ]


def _flatten(value: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, (dict, list)) and value:
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _flatten(item, f"{prefix}.{key}" if prefix else str(key))
    else:
        yield prefix, value


def _set(values: dict[str, Any], keys: tuple[str, ...], value: Any) -> None:
    target: Any = values
    for position, key in enumerate(keys):
        last = position == len(keys) - 1
        if isinstance(target, list):
            if not key.isdigit() or int(key) >= len(target):
                raise ConfigError(
                    f"--{'.'.join(keys)}: {'.'.join(keys[:position])} has entries 0 to {len(target) - 1}, not {key}"
                )
            index: Any = int(key)
        elif isinstance(target, dict):
            index = key
        else:
            raise ConfigError(f"--{'.'.join(keys)}: {'.'.join(keys[:position])} is a value, not a table")
        if last:
            target[index] = value
        else:
            target = target.setdefault(index, {}) if isinstance(target, dict) else target[index]


def _explain(fault: Any, path: Path, text: str, given: Collection[tuple[str, ...]]) -> str:
    """One sentence for one pydantic fault; `given` are the keys from the command line."""
    location = _without_union_tags(tuple(map(str, fault["loc"])))
    error = fault.get("ctx", {}).get("error")
    if isinstance(error, KeyFaultError):
        location = (*location, error.key)
    dotted = ".".join(location)
    line = _line_of(location, text)
    inside = any(location[: len(keys)] == keys for keys in given)
    if inside or (line is None and any(keys[: len(location)] == location for keys in given)):
        where = "command line"
    else:
        where = f"{path}:{line}" if line else str(path)
    match fault["type"]:
        case "extra_forbidden":
            known = _known_keys(location[:-1])
            near = difflib.get_close_matches(location[-1], known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"known keys: {', '.join(known)}"
            return f"{where}: unknown key {dotted}; {hint}"
        case "missing":
            return f"{where}: {dotted} is missing; it has no default"
        case "value_error":
            return f"{where}: {dotted + ': ' if dotted else ''}{error}"
    message = re.sub(r"^(Input|String) should", "must", fault["msg"])
    return f"{where}: {dotted} = {fault['input']!r}: {message[0].lower()}{message[1:]}"


def _without_union_tags(location: tuple[str, ...]) -> tuple[str, ...]:
    """A fault's location without the `str` or `list[str]` that pydantic adds for each member of a union."""
    for end in range(1, len(location)):
        if not location[end].isdigit() and not _known_keys(location[:end]):
            return location[:end]
    return location


def _known_keys(location: tuple[str, ...]) -> list[str]:
    """Keys of the table at a location of the config; none where a value is, not a table."""
    model: type[BaseModel] = Config
    for part in location:
        if part.isdigit():
            continue
        annotation = model.model_fields[part].annotation
        candidates = [annotation, *get_args(annotation)]
        tables = [c for c in candidates if isinstance(c, type) and issubclass(c, BaseModel)]
        if not tables:
            return []
        model = tables[0]
    return list(model.model_fields)


def _line_of(location: tuple[str, ...], text: str) -> int | None:
    """Line of a key in a TOML text, or of its table where the key itself is absent; None if neither is there."""
    table, found, entry, here = "", None, -1, True
    wanted_table = ".".join(part for part in location[:-1] if not part.isdigit())
    wanted_entry = next((int(part) for part in location if part.isdigit()), None)
    for number, line in enumerate(text.splitlines(), start=1):
        if header := re.match(r"\s*\[{1,2}\s*([\w.\-]+)\s*\]{1,2}", line):
            table = header[1]
            entry += line.strip().startswith("[[")
            here = wanted_entry is None or entry == wanted_entry
            if here and table in (wanted_table, ".".join(location)):
                found = number
        elif location and here and table == wanted_table and line.partition("=")[0].strip(" \t\"'") == location[-1]:
            return number
    return found
