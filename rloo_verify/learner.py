"""Groups -> one optimizer step with the exact RLOO gradient."""

import math
from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from rloo_verify.advantages import advantages_by_number, numbered
from rloo_verify.collective import collective
from rloo_verify.config import LearnerConfig, LoraConfig
from rloo_verify.errors import OffPolicyError
from rloo_verify.flops import ModelFlops, peak_flops
from rloo_verify.importance import importance_statistics, log_ratios, truncated_weights
from rloo_verify.logprobs import Scorer
from rloo_verify.lora import add_adapters, merged_weights, without_adapters
from rloo_verify.optimizer import build_optimizer, move_state, set_rate
from rloo_verify.packing import NOTHING, Row, Scored
from rloo_verify.parallel import World, full
from rloo_verify.rloo import rloo_loss
from rloo_verify.state import restore, training_state, write_state
from rloo_verify.types import Group, Signal
from rloo_verify.update import Part, Update, gap_part, total


class Learner:
    """Holds the float32 master weights and the optimizer, or this process's shards of them.

    With several processes, rank 0 calls the methods marked `@collective` and the others follow: each computes its share
    of the rows, so the loss, the gradient and every returned value are those of a single process.

    Attributes:
        version: Number of optimizer steps taken; completions drawn under another version are refused.
        vocabulary_size: Token ids below this exist.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        config: LearnerConfig,
        *,
        temperature: float = 1.0,
        lora: LoraConfig | None = None,
        reference: torch.nn.Module | None = None,
        max_logprob_gap: float = math.inf,
        world: World | None = None,
    ) -> None:
        """Takes a Hugging Face causal LM in float32 (or float64), on its device.

        Args:
            model: The model to train; with `lora` its own weights are frozen.
            config: The optimizer's settings.
            temperature: Sampling temperature, which also divides the logits here.
            lora: Train low-rank adapters instead of all weights.
            reference: Frozen reference model for the KL penalty; not needed with `lora`, whose base is the reference.
            max_logprob_gap: Largest mean |sampler - learner| log-prob a token, in nats, at which a step is still taken.
            world: The processes that learn together; this one alone if None.
        """
        self.world = world or World()
        self.config = config
        self.temperature = temperature
        self.max_logprob_gap = max_logprob_gap
        self.version = 0
        self.model = add_adapters(model, lora) if lora else model
        self.model.train()
        for module in self.model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0  # the sampler has no dropout, so the trained distribution must not have any
        if config.gradient_checkpointing:
            self.model.gradient_checkpointing_enable({"use_reentrant": False})  # type: ignore[operator]
        self.vocabulary_size = int(self.model.get_input_embeddings().num_embeddings)  # type: ignore[operator]
        self.scorer = Scorer(self.model, self.vocabulary_size)
        self.reference: Scorer | None = None
        if config.kl_beta > 0:
            if reference is not None:
                self.reference = Scorer(reference.eval().requires_grad_(False), self.vocabulary_size)
            elif lora:
                self.reference = self.scorer
            else:
                raise ValueError("kl_beta > 0 needs a reference model")
        self.flops = ModelFlops(self.model)
        compute_dtype = torch.bfloat16 if self.scorer.device.type == "cuda" else next(self.model.parameters()).dtype
        self.peak_flops = peak_flops(self.scorer.device.type, compute_dtype)
        self.scorer.shard(self.world)
        if self.reference not in (None, self.scorer):
            self.reference.shard(self.world)
        self.trained = {name: p for name, p in self.model.named_parameters() if p.requires_grad}
        self.optimizer = build_optimizer(list(self.trained.values()), config)

    @collective
    def step(self, groups: Sequence[Group]) -> Update:
        """One exact RLOO update from the groups of a step; groups without signal cost nothing while the KL is off.

        Raises:
            OffPolicyError: if a completion was drawn under other weights than the learner's current ones, or sampler
                and learner differ by more than `max_logprob_gap`; the parameters are as before.
        """
        self._refuse_stale(groups)
        judged = [group for group in groups if group.signal is not Signal.UNJUDGED]
        trained = [g for g in judged if g.signal is Signal.MIXED or self.config.kl_beta > 0]
        if not trained:
            return self._gap_only(groups)
        num_completions = sum(reward is not None for group in judged for reward in group.rewards_G)
        sequences = numbered(trained)
        beta = self.config.kl_beta
        advantages, kl = advantages_by_number(trained, self._reference_sums(sequences) if beta > 0 else None, beta)
        drawn = {one.index: logprobs for one, logprobs in sequences}
        wanted = [one for one, _ in sequences if one.index in advantages]
        self.optimizer.zero_grad(set_to_none=True)
        parts = []
        mine = self._share(self.scorer, wanted)
        for i, rows in enumerate(mine, 1):
            self.world.sum_gradients_at(self.scorer.module, last=i == len(mine))
            if rows is NOTHING:
                self._backward(rows, {-1: 0.0}, num_completions, {-1: (0.0,)})
            else:
                parts.append(self._backward(rows, advantages, num_completions, drawn))
        from_all, peaks = zip(*self.world.gather((total(parts), self.peak_flops)), strict=True)
        whole = total(from_all)
        self._refuse_gap(whole)
        lr = self.config.lr * min(1.0, (self.version + 1) / max(1, self.config.warmup_steps))
        cap = self.config.importance_cap
        return Update(
            updated=True,
            loss=whole.loss,
            grad_norm=self._apply(lr),
            lr=lr,
            completions=len(wanted),
            tokens=sum(len(one.completion_T) for one in wanted),
            tokens_computed=whole.computed,
            tokens_saved=sum(len(one.prompt_T) + len(one.completion_T) for one in wanted if one.completion_T)
            - whole.computed,
            tokens_padding=whole.padding,
            flops=whole.flops,
            peak_flops=sum(peaks),
            gap=whole.gap,
            entropy=whole.entropy_sum / max(1, whole.tokens) if self.config.log_entropy else None,
            kl=kl,
            importance=importance_statistics(whole.log_ratios, cap) if cap else None,
        )

    @collective
    @torch.no_grad()
    def score(self, sequences: Sequence[tuple[Sequence[int], Sequence[int]]], temperature: float) -> list[list[float]]:
        """Log-probs of given tokens by the current weights, the learner's side of `Policy.score`."""
        return self._scores(sequences, temperature)

    @collective
    def named_weights(self) -> Generator[tuple[str, Tensor], None, None]:
        """Current weights by Hugging Face parameter names; adapters merged on the fly, base weights untouched.

        Sharded weights are gathered one by one: nobody holds more than one whole tensor on account of this.
        """
        for name, value in merged_weights(self.model):
            yield name, full(value)

    def state(self) -> dict[str, Tensor]:
        """All that a resumed learner needs: trained parameters, what the optimizer keeps for each, the version."""
        return training_state(self.trained, self.optimizer, self.version)

    @collective
    def save_state(self, folder: Path) -> None:
        """Writes `state()` to a folder.

        Raises:
            OSError: if a file cannot be written.
        """
        write_state(folder, self.state(), self.world)

    @collective
    def load_state(self, folder: Path) -> None:
        """Restores what `save_state` wrote, to the same bits, whatever the number of processes that wrote it.

        Raises:
            KeyError, ValueError, OSError: if it is not the state of such a learner.
        """
        self.version = restore(folder, self.trained, self.optimizer, self.world)

    def _refuse_stale(self, groups: Sequence[Group]) -> None:
        for group in groups:
            for completion in group.completions_G:
                if completion.policy_version != self.version:
                    raise OffPolicyError(
                        f"completion {completion.sample_index} of {group.problem.id} was drawn by policy version "
                        f"{completion.policy_version} but the learner is at version {self.version}; "
                        "sync the weights before drawing"
                    )

    def _share(self, scorer: Scorer, sequences: Sequence[Scored]) -> list[list[Row]]:
        """The micro-batches of this process, as many as every other one has."""
        return scorer.shares(sequences, self.config.micro_batch_tokens, self.world.size)[self.world.rank]

    def _backward(
        self,
        rows: Sequence[Row],
        advantages: Mapping[int, float],
        num_completions: int,
        drawn: Mapping[int, Sequence[float]],
    ) -> Part:
        """Adds one micro-batch's gradient."""
        config = self.config
        with self.scorer.autocast():
            scores = self.scorer.token_logprobs(rows, self.temperature, with_entropy=config.log_entropy)
        logprobs_K = scores.logprobs_K
        numbers = [one.index for row in rows for one in row.scored]
        place = {number: i for i, number in enumerate(numbers)}
        places_K = torch.tensor([place[number] for number in scores.batch.owners_K.tolist()], device=logprobs_K.device)
        sums = logprobs_K.new_zeros(len(numbers)).index_add(0, places_K, logprobs_K)
        weights = sums.new_tensor([advantages[number] for number in numbers])
        ratios = Part().log_ratios
        if config.importance_cap is not None:
            ratios = log_ratios(sums.cpu(), torch.tensor([math.fsum(drawn[number]) for number in numbers]))
            weights = weights * truncated_weights(ratios, config.importance_cap).to(weights)
        loss = rloo_loss(sums, weights, num_completions)
        loss.backward()  # type: ignore[no-untyped-call]
        computed = sum(map(len, rows))
        return replace(
            gap_part(logprobs_K, torch.tensor([value for number in numbers for value in drawn[number]])),
            loss=loss.item(),
            computed=computed,
            padding=scores.batch.token_ids_B_T.numel() - computed,
            flops=self.flops.of(rows),
            entropy_sum=0.0 if scores.entropies_K is None else scores.entropies_K.sum(dtype=torch.float64).item(),
            log_ratios=ratios,
        )

    def _reference_sums(self, sequences: Sequence[tuple[Scored, tuple[float, ...]]]) -> dict[int, float]:
        """Log-prob of each completion under the reference, summed over its tokens, by its number."""
        assert self.reference is not None
        with without_adapters(self.model, self.reference is self.scorer), torch.no_grad():
            values = self._logprobs(self.reference, [one for one, _ in sequences], self.temperature)
        return {number: value.sum().item() for number, value in values.items()}

    def _logprobs(self, scorer: Scorer, sequences: Sequence[Scored], temperature: float) -> dict[int, Tensor]:
        """Token log-probs of each sequence by its index, on the CPU, without gradients; empty ones are absent."""
        values: dict[int, Tensor] = {}
        for rows in self._share(scorer, sequences):
            with scorer.autocast():
                scores = scorer.token_logprobs(rows, temperature)
            logprobs_K, owners_K = scores.logprobs_K.cpu(), scores.batch.owners_K.cpu()
            for row in rows if rows is not NOTHING else ():
                values.update({one.index: logprobs_K[owners_K == one.index] for one in row.scored})
        return {index: value for part in self.world.gather(values) for index, value in part.items()}

    def _scores(
        self, sequences: Sequence[tuple[Sequence[int], Sequence[int]]], temperature: float
    ) -> list[list[float]]:
        scored = [Scored(i, tuple(prompt), tuple(own)) for i, (prompt, own) in enumerate(sequences)]
        values = self._logprobs(self.scorer, scored, temperature)
        return [values.get(i, torch.empty(0)).tolist() for i in range(len(sequences))]

    @torch.no_grad()
    def _gap_only(self, groups: Sequence[Group]) -> Update:
        """A step without signal: no update, but sampler and learner are still compared on one completion."""
        drawn = ((group.problem, one) for group in groups for one in group.completions_G if one.token_ids_T)
        first = next(drawn, None)
        if first is None:
            return Update(updated=False)
        problem, completion = first
        own = torch.tensor(self._scores([(problem.prompt_token_ids_T, completion.token_ids_T)], self.temperature)[0])
        part = gap_part(own, torch.tensor(completion.logprobs_T))
        self._refuse_gap(part)
        return Update(updated=False, gap=part.gap)

    def _refuse_gap(self, part: Part) -> None:
        """Before any update, stops where sampler and learner differ by more than `max_logprob_gap` on average."""
        gap = part.gap
        if gap is None or gap.mean <= self.max_logprob_gap:
            return
        self.optimizer.zero_grad(set_to_none=True)
        raise OffPolicyError(
            f"sampler and learner log-probs differ by {gap.mean:.3g} nats a token on average, above "
            f"policy.max_logprob_gap = {self.max_logprob_gap:g}; the step was not taken"
        )

    def _apply(self, lr: float) -> float:
        norm = full(torch.nn.utils.clip_grad_norm_(self.trained.values(), self.config.max_grad_norm))
        if not torch.isfinite(norm):
            self.optimizer.zero_grad(set_to_none=True)
            raise OffPolicyError(
                f"the gradient norm is {norm.item()} at update {self.version + 1}; lower learner.lr or check the model"
            )
        set_rate(self.optimizer, lr)
        if self.config.offload_optimizer:
            move_state(self.optimizer, self.scorer.device)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        if self.config.offload_optimizer:
            move_state(self.optimizer, "cpu")
        self.version += 1
        return norm.item()
