"""The configuration: one pydantic model per TOML table, with every default in one place.

Nothing derived is stored here; what follows from these values is computed where it is used.
`configfile.py` reads TOML files and command-line overrides into these models.
"""

from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    model_validator,
)

REFUSED_SAMPLING = {
    "top_p": "it truncates the distribution that the learner differentiates",
    "top_k": "it truncates the distribution that the learner differentiates",
    "min_p": "it truncates the distribution that the learner differentiates",
    "typical_p": "it truncates the distribution that the learner differentiates",
    "repetition_penalty": "penalties change the distribution that the learner differentiates",
    "presence_penalty": "penalties change the distribution that the learner differentiates",
    "frequency_penalty": "penalties change the distribution that the learner differentiates",
    "no_repeat_ngram_size": "it changes the distribution that the learner differentiates",
    "num_beams": "beams are not independent samples",
    "use_beam_search": "beams are not independent samples",
}
"""Sampling keys that users know from elsewhere, each with the condition of the estimator that it breaks."""


class KeyFaultError(ValueError):
    """A rule of a table is broken by the value of one of its keys, which the message is about."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message)
        self.key = key


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class RunConfig(_Table):
    """`[run]`: which run this is and how long it goes."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", description="Name of the run's folder.")
    out: str = Field("runs", description="Folder that holds the run folders.")
    seed: int = Field(0, description="Seed of problem order and of every completion.")
    steps: PositiveInt = Field(description="Number of sample -> verify -> update -> sync rounds.")


class LoraConfig(_Table):
    """`[model.lora]`: train low-rank adapters (needs the `lora` extra) instead of all weights."""

    rank: PositiveInt = Field(16, description="Rank of the adapters.")
    alpha: PositiveFloat = Field(32.0, description="The adapters' output is scaled by alpha / rank.")
    target_modules: str | list[str] = Field("all-linear", description="Module names, or `all-linear`.")


class ModelConfig(_Table):
    """`[model]`: the policy to train."""

    path: str = Field(description="A hub id, a folder, or a built-in name (`tiny-arithmetic`).")
    dtype: Literal["auto", "float32", "bfloat16"] = Field(
        "auto", description="Type of the policy's weights; the learner keeps float32. auto: bfloat16 on a GPU."
    )
    lora: LoraConfig | None = Field(None, description="Low-rank adapters; absent: all weights are trained.")


class TaskConfig(_Table):
    """One `[[tasks]]` entry: where problems come from."""

    name: str = Field(description="A task's name or the path of its folder.")
    split: str = Field("train", description="Split to train on.")
    weight: PositiveFloat = Field(1.0, description="Share of the problems, relative to the other tasks.")
    data: str | None = Field(None, description="Local file that replaces the training split's source.")
    columns: dict[str, str] = Field(default_factory=dict, description="Columns of that file, if named otherwise.")
    gold: str | None = Field(None, description="How the answer column is read, if otherwise than in the task.")
    options: dict[str, Any] = Field(default_factory=dict, description="Options of the task's data source.")


class SampleConfig(_Table):
    """`[sample]`: what is drawn in a step."""

    problems_per_step: PositiveInt = Field(description="Problems a step (P).")
    group_size: Annotated[int, Field(ge=2)] = Field(description="Completions of each problem (G), at least 2.")
    max_new_tokens: PositiveInt = Field(description="Longest completion, in tokens.")
    max_prompt_tokens: PositiveInt = Field(1024, description="Longest prompt, in tokens.")
    long_prompts: Literal["error", "skip"] = Field(
        "error", description="What a longer prompt in the training data is: an error, or left out and counted."
    )
    temperature: PositiveFloat = Field(1.0, description="Divides the logits, in the sampler and in the learner.")
    no_signal: Literal["log", "refill"] = Field(
        "log", description="refill: draw further problems until problems_per_step groups are mixed, within a bound."
    )
    refill_factor: Annotated[float, Field(ge=1)] = Field(
        3.0, description="Bound of refill: at most this many times problems_per_step problems are drawn in a step."
    )

    @model_validator(mode="before")
    @classmethod
    def _refuse_other_distributions(cls, values: Any) -> Any:
        for key in values if isinstance(values, dict) else ():
            if key in REFUSED_SAMPLING:
                raise KeyFaultError(key, f"refused because {REFUSED_SAMPLING[key]}; remove it")
        return values


class PolicyConfig(_Table):
    """`[policy]`: the engine that draws completions."""

    engine: Literal["auto", "vllm", "transformers"] = Field("auto", description="auto: vllm where it can be used.")
    max_logprob_gap: PositiveFloat = Field(
        0.1, description="Largest mean |log-prob difference| a token between sampler and learner, in nats."
    )
    max_sync_gap: PositiveFloat | None = Field(
        None,
        description="Largest |log-prob difference| of the probe after a sync; default 1e-3, in bfloat16 0.3.",
    )
    gpu_memory_utilization: Annotated[float, Field(gt=0, le=1)] = Field(
        0.45, description="Share of the GPU's memory for vLLM; the learner needs the rest."
    )
    tensor_parallel_size: PositiveInt = Field(1, description="GPUs that vLLM splits the model over.")
    sleep: bool = Field(
        False, description="The engine gives the GPU's memory to the learner while that learns (vLLM's sleep mode)."
    )
    batch_size: PositiveInt = Field(256, description="Sequences that the transformers engine draws at a time.")


class LearnerConfig(_Table):
    """`[learner]`: the optimizer step."""

    lr: PositiveFloat = Field(description="AdamW learning rate after warm-up.")
    warmup_steps: NonNegativeInt = Field(0, description="Updates over which the learning rate rises linearly.")
    weight_decay: NonNegativeFloat = Field(0.0, description="AdamW weight decay.")
    betas: tuple[float, float] = Field((0.9, 0.999), strict=False, description="AdamW betas.")
    max_grad_norm: PositiveFloat = Field(1.0, description="Gradients are scaled down to this norm.")
    micro_batch_tokens: PositiveInt = Field(16384, description="Largest micro-batch, in tokens, padding included.")
    kl_beta: NonNegativeFloat = Field(
        0.0, description="Weight of the KL penalty in the reward, per nat; 0 loads no reference model."
    )
    importance_cap: Annotated[float, Field(ge=1)] | None = Field(
        None,
        description="Off-policy guard: weight completions by min(cap, p_learner / p_sampler); absent: no weights.",
    )
    log_entropy: bool = Field(False, description="Log the policy's entropy at the trained tokens.")
    gradient_checkpointing: bool = Field(False, description="Recompute activations in the backward pass.")
    optimizer: Literal["adamw", "adamw8bit"] = Field(
        "adamw", description="adamw8bit keeps the moments in 8 bit (needs the `adam8` extra)."
    )
    offload_optimizer: bool = Field(
        False, description="Keep the optimizer's state in CPU memory, and on the GPU during its step only."
    )


class VerifyConfig(_Table):
    """`[verify]`: how completions are judged."""

    workers: PositiveInt = Field(2, description="Checker processes.")
    timeout_seconds: PositiveFloat = Field(5.0, description="CPU time a check may take; a task may state its own.")
    max_error_share: Annotated[float, Field(ge=0, le=1)] = Field(
        0.2, description="A step with a larger share of ERROR verdicts stops the run."
    )


class SandboxConfig(_Table):
    """`[sandbox]`: where untrusted programs run. Read by code tasks only."""

    backend: Literal["auto", "docker", "bwrap"] = Field("auto", description="auto: docker where an engine answers.")
    runtime: str = Field("runc", description="The OCI runtime, for instance runsc.")
    containers: PositiveInt = Field(2, description="Warm containers of each verifier worker: one in use, others spare.")
    unsafe: bool = Field(
        False, description="Run programs without protection where no sandbox works; marked in every verdict."
    )
    live_tests: bool = Field(
        False, description="Let tasks with `live` run tests in the program's process, where it can tamper with them."
    )


class EvalConfig(_Table):
    """`[eval]`: held-out evaluation before, during and after training."""

    every: NonNegativeInt = Field(0, description="Evaluate every so many steps; 0: only before and after.")
    problems: NonNegativeInt = Field(200, description="Problems of each task's held-out split; 0: no evaluation.")
    n: PositiveInt = Field(1, description="Completions of each problem.")
    k: list[PositiveInt] = Field(default_factory=lambda: [1], description="The k of pass@k.")
    split: str = Field("test", description="Held-out split.")

    @model_validator(mode="after")
    def _k_within_n(self) -> "EvalConfig":
        if max(self.k, default=1) > self.n:
            raise KeyFaultError("k", f"{max(self.k)} is larger than n = {self.n}; pass@k needs n >= k completions")
        return self


class SaveConfig(_Table):
    """`[save]`: checkpoints."""

    every: PositiveInt = Field(50, description="Checkpoint every so many steps, and always at the end.")
    keep: PositiveInt = Field(2, description="Checkpoints to keep.")


class TrackConfig(_Table):
    """`[track]`: trackers that mirror the run folder."""

    use: list[Literal["tensorboard", "wandb", "trackio", "mlflow"]] = Field(
        default_factory=list, description="Trackers; each needs the extra of its name."
    )


class Config(_Table):
    """A whole training run."""

    run: RunConfig
    model: ModelConfig
    tasks: list[TaskConfig] = Field(min_length=1)
    sample: SampleConfig
    policy: PolicyConfig = Field(default_factory=PolicyConfig)
    learner: LearnerConfig
    verify: VerifyConfig = Field(default_factory=VerifyConfig)
    sandbox: SandboxConfig = Field(default_factory=SandboxConfig)
    eval: EvalConfig = Field(default_factory=EvalConfig)
    save: SaveConfig = Field(default_factory=SaveConfig)
    track: TrackConfig = Field(default_factory=TrackConfig)

    @model_validator(mode="after")
    def _cross_field_rules(self) -> "Config":
        names = [task.name for task in self.tasks]
        if len(set(names)) < len(names):
            raise ValueError(f"tasks: {', '.join(sorted({n for n in names if names.count(n) > 1}))} is listed twice")
        longest = self.sample.max_prompt_tokens + self.sample.max_new_tokens
        if longest > self.learner.micro_batch_tokens:
            raise ValueError(
                f"learner.micro_batch_tokens = {self.learner.micro_batch_tokens} cannot hold one sequence of "
                f"sample.max_prompt_tokens + sample.max_new_tokens = {longest} tokens; raise it or shorten the sequence"
            )
        return self
