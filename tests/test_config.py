"""Config files and command-line overrides: every fault is one sentence with file, line and key."""

from pathlib import Path

import pytest

from rloo_verify.config import REFUSED_SAMPLING
from rloo_verify.configfile import changed_keys, dump_config, find_config, load_config, parse_overrides
from rloo_verify.errors import ConfigError
from rloo_verify.folders import data_folder

TEXT = """\
[run]
name = "one"
steps = 4

[model]
path = "m"

[[tasks]]
name = "arithmetic"

[[tasks]]
name = "gsm8k"
weight = 2.0

[sample]
problems_per_step = 2
group_size = 4
max_new_tokens = 8

[learner]
lr = 1e-3
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "one.toml"
    path.write_text(TEXT)
    return path


def replaced(file: Path, old: str, new: str) -> Path:
    assert old in TEXT
    file.write_text(TEXT.replace(old, new))
    return file


FAULTS = {
    "unknown key": (
        "lr = 1e-3",
        "lr = 1e-3\nwarmup = 5",
        ":22: unknown key learner.warmup; did you mean warmup_steps?",
    ),
    "unknown table": ("[model]", "[modle]", ":5: unknown key modle; did you mean model?"),
    "unknown key of the second task": (
        "weight = 2.0",
        "wieght = 2.0",
        ":13: unknown key tasks.1.wieght; did you mean weight?",
    ),
    "unknown key like no other": (
        "steps = 4",
        "steps = 4\nzzz = 1",
        ":4: unknown key run.zzz; known keys: name, out, seed, steps",
    ),
    "wrong type": ("steps = 4", 'steps = "many"', ":3: run.steps = 'many': must be a valid integer"),
    "a number in quotes": ("steps = 4", 'steps = "4"', ":3: run.steps = '4': must be a valid integer"),
    "true is not 1": ("steps = 4", "steps = true", ":3: run.steps = True: must be a valid integer"),
    "a group of one": ("group_size = 4", "group_size = 1", ":17: sample.group_size = 1: must be greater than or equal"),
    "top_p": (
        "group_size = 4",
        "group_size = 4\ntop_p = 0.9",
        ":18: sample.top_p: refused because it truncates the distribution that the learner differentiates; remove it",
    ),
    "k above n": ("[sample]", "[eval]\nn = 2\nk = [1, 4]\n[sample]", ":17: eval.k: 4 is larger than n = 2"),
    "the same task twice": ('"gsm8k"', '"arithmetic"', ": tasks: arithmetic is listed twice"),
    "a missing key": ("lr = 1e-3", "", ":20: learner.lr is missing; it has no default"),
    "a missing table": ('[model]\npath = "m"', "", ": model is missing; it has no default"),
    "a value out of range": ("lr = 1e-3", "lr = -1.0", ":21: learner.lr = -1.0: must be greater than 0"),
    "a name that is no folder name": ('"one"', '"../one"', ":2: run.name = '../one': must match pattern"),
    "a choice that does not exist": (
        "[sample]",
        '[policy]\nengine = "sglang"\n[sample]',
        ":16: policy.engine = 'sglang': must be 'auto', 'vllm' or 'transformers'",
    ),
    "sequences that no micro-batch holds": (
        "lr = 1e-3",
        "lr = 1e-3\nmicro_batch_tokens = 1000",
        "learner.micro_batch_tokens = 1000 cannot hold one sequence of sample.max_prompt_tokens + "
        "sample.max_new_tokens = 1032 tokens",
    ),
    "no TOML": ("steps = 4", "steps 4", "is not valid TOML"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_one_line_with_file_line_and_key(file: Path, fault: str) -> None:
    old, new, message = FAULTS[fault]
    if message.startswith(":"):
        message = f"{file}{message}"
    with pytest.raises(ConfigError) as caught:
        load_config(replaced(file, old, new))
    assert message in str(caught.value)
    lines = str(caught.value).splitlines()
    assert len(lines) == 1 or fault == "unknown table"  # there, the table that was meant is missing, too


def test_every_fault_is_told_at_once(file: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(replaced(file, "lr = 1e-3", "lr = 0\nwarmup = 5"), ["--run.steps", "0"])
    assert len(str(caught.value).splitlines()) == 3


@pytest.mark.parametrize("key", REFUSED_SAMPLING)
def test_sampling_that_the_learner_does_not_score_is_refused(file: Path, key: str) -> None:
    with pytest.raises(ConfigError, match=f"command line: sample.{key}: refused because"):
        load_config(file, [f"--sample.{key}", "0.9"])


def test_a_config_that_is_not_there_or_not_text_is_refused(file: Path) -> None:
    with pytest.raises(ConfigError, match=r"no config file nope.toml; .* built-in name: .*quickstart"):
        find_config("nope.toml")
    file.write_bytes(b"\xff\xfe[run]")
    with pytest.raises(ConfigError, match="cannot be read"):
        load_config(file)


def test_both_forms_of_an_override_reach_tables_tasks_and_new_tables(file: Path) -> None:
    arguments = ["--run.steps", "50", "--learner.lr=1e-6", "--tasks.1.weight", "0.5", "--model.lora.rank=4"]
    config = load_config(file, [*arguments, "--eval.k=[1, 2]", "--eval.n", "2", "--run.seed", "-3"])
    assert (config.run.steps, config.learner.lr, config.tasks[1].weight) == (50, 1e-6, 0.5)
    assert config.tasks[0].weight == 1.0
    assert config.model.lora is not None
    assert (config.model.lora.rank, config.eval.k, config.run.seed) == (4, [1, 2], -3)


def test_values_are_toml_and_anything_else_is_text(file: Path) -> None:
    assert load_config(file, ["--model.path", "org/a-model"]).model.path == "org/a-model"
    assert load_config(file, ["--model.path", '"quoted"']).model.path == "quoted"
    assert load_config(file, ["--learner.gradient_checkpointing", "true"]).learner.gradient_checkpointing is True
    assert load_config(file, ["--learner.lr", "1"]).learner.lr == 1.0
    # TOML calls these a date and an integer; a name is text
    assert load_config(file, ["--run.name", "2026-01-31"]).run.name == "2026-01-31"
    assert load_config(file, ["--run.name", "17"]).run.name == "17"
    assert load_config(file, ["--run.name=a=b", "--run.name=c"]).run.name == "c"  # the last one counts


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--run.steps"], "--run.steps has no value"),
        (["--learner.lr", "--run.steps", "5"], "--learner.lr has no value"),
        (["--steps", "5"], "unknown argument --steps; config overrides look like --run.steps 50"),
        (["run.steps=5"], "unknown argument run.steps=5"),
        (["--run.steps.more", "5"], "--run.steps.more: run.steps is a value, not a table"),
        (["--tasks.2.weight", "5"], "--tasks.2.weight: tasks has entries 0 to 1, not 2"),
        (["--run.stesp", "5"], "command line: unknown key run.stesp; did you mean steps?"),
        (["--track.use", '["wnb"]'], "command line: track.use.0 = 'wnb': must be"),
        (["--foo.bar", "1"], "command line: unknown key foo; known keys: run, model"),
        (["--model.lora.target_modules", "5"], "command line: model.lora.target_modules = 5: must be a valid string"),
        (["--eval.k", "[4]"], "command line: eval.k: 4 is larger than n = 1"),
    ],
)
def test_a_fault_on_the_command_line_says_so(file: Path, arguments: list[str], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(file, arguments)
    assert message in str(caught.value)


def test_overrides_are_split_at_the_first_equals_sign() -> None:
    assert list(parse_overrides(["--a.b=c=d", "--e.f", "g=h"])) == [(("a", "b"), "c=d"), (("e", "f"), "g=h")]


def test_a_dumped_config_loads_to_the_same_values(file: Path, tmp_path: Path) -> None:
    config = load_config(file, ["--model.lora.rank", "4", "--tasks.0.options", "{level = 2}", "--learner.lr", "1e-7"])
    copy = tmp_path / "copy.toml"
    copy.write_text(dump_config(config))
    assert load_config(copy) == config
    assert changed_keys(load_config(copy), config) == []


def test_changed_keys_show_both_values(file: Path) -> None:
    old, new = load_config(file), load_config(file, ["--learner.lr", "2e-3", "--tasks.1.weight", "3", "--eval.n", "4"])
    assert changed_keys(old, new) == ["tasks.1.weight: 2.0 -> 3.0", "learner.lr: 0.001 -> 0.002", "eval.n: 1 -> 4"]
    with_lora = load_config(file, ["--model.lora.rank", "4"])
    assert "model.lora.rank: None -> 4" in changed_keys(old, with_lora)


@pytest.mark.parametrize("name", sorted(path.stem for path in data_folder("configs").glob("*.toml")))
def test_every_config_that_ships_loads_by_its_name(name: str) -> None:
    config = load_config(find_config(name))
    assert config.run.name
    assert find_config(f"{name}.toml") == find_config(name)
