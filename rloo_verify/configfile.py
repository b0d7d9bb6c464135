"""Reads and writes config files: TOML plus dotted command-line overrides, with errors that name file, line and key."""

import difflib
import re
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, get_args

import tomli_w
from pydantic import BaseModel, ValidationError

from rloo_verify.config import Config
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
    text = path.read_text(encoding="utf-8")
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from None
    from_command_line = set()
    for keys, value in parse_overrides(overrides):
        _set(values, keys, value)
        from_command_line.add(keys)
    try:
        return Config.model_validate(values)
    except ValidationError as error:
        lines = [_explain(fault, path, text, from_command_line) for fault in error.errors()]
        raise ConfigError("\n".join(dict.fromkeys(lines))) from None


def parse_overrides(arguments: Sequence[str]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yields `(key path, value)` from `--a.b value` and `--a.b=value`. Values are TOML; anything else is a string.

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
            if not rest:
                raise ConfigError(f"{argument} has no value; config overrides look like --run.steps 50")
            value = rest.pop(0)
        try:
            parsed = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            parsed = value
        yield tuple(name.split(".")), parsed


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


def _explain(fault: Any, path: Path, text: str, from_command_line: set[tuple[str, ...]]) -> str:
    """One sentence for one pydantic fault."""
    location = tuple(str(part) for part in fault["loc"])
    dotted = ".".join(location)
    if location in from_command_line:
        where = "command line"
    else:
        line = _line_of(location, text)
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
            message = str(fault["ctx"]["error"])
            return f"{where}: {dotted + ': ' if dotted else ''}{message}"
    message = fault["msg"].replace("Input should be", "must be")
    return f"{where}: {dotted} = {fault['input']!r}: {message[0].lower()}{message[1:]}"


def _known_keys(location: tuple[str, ...]) -> list[str]:
    """Keys of the table at a location of the config."""
    model: type[BaseModel] = Config
    for part in location:
        if part.isdigit():
            continue
        annotation = model.model_fields[part].annotation
        candidates = [annotation, *get_args(annotation)]
        model = next(c for c in candidates if isinstance(c, type) and issubclass(c, BaseModel))
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
