"""Run under torchrun: gradients of SRPO's training worker against one autograd graph, over random layouts.

Rank 0 prints one JSON line a case: the largest relative difference over parameters, and the two losses. The engine is
verl's own FSDP2 engine on gloo; its optimizer step is replaced by one that hands out the gradients, so that every
mini-batch of a case meets the same weights as the reference.
"""

from __future__ import annotations

import json
import os
import sys
from types import SimpleNamespace

os.environ.setdefault("VERL_PLATFORM", "cpu")

import torch
from tensordict import TensorDict
from transformers import Qwen2ForCausalLM
from verl.trainer.ppo.core_algos import kl_penalty
from verl.utils import tensordict_utils as tu

from tests.trainer.engine import VOCABULARY, build_worker

CLIP = 0.2


class Case:
    """Random rows: sets of one to five members, padding rows, removed rows; every rank draws the same."""

    def __init__(self, seed: int, ranks: int, model):
        g = torch.Generator().manual_seed(seed)
        draw = lambda low, high: int(torch.randint(low, high + 1, (1,), generator=g))  # noqa: E731
        pick = lambda *options: options[draw(0, len(options) - 1)]  # noqa: E731
        self.mini_batches = draw(1, 5)
        self.options = {
            "unit": pick("set", "set", "member", "token"),
            "member_norm": "sum",
            "cardinality_norm": "sqrt",
            "clip_low": CLIP,
            "clip_high": CLIP,
            "first_is_old": False,
        }
        if self.options["unit"] == "set":
            self.options["cardinality_norm"] = pick("sqrt", "none", "mean")
        if self.options["unit"] != "token":
            self.options["member_norm"] = pick("sum", "mean")
        self.entropy_coeff, self.kl = pick(0.0, 0.01), pick(False, True)
        noise = pick(0.02, 0.4)  # small: nothing is clipped; large: most of it is
        bins: list[list[int]] = [[] for _ in range(self.mini_batches)]  # rows of each mini-batch
        self.set_id, self.advantage, self.weight, self.importance = [], [], [], []
        for number in range(draw(self.mini_batches, 12)):
            size = pick(1, 2, 2, 3, 5)
            advantage, weight = torch.randn(1, generator=g).item(), torch.rand(1, generator=g).item() + 0.1
            importance = 0.5 + number % 3 / 2
            for _ in range(size):
                bins[number % self.mini_batches].append(len(self.set_id))
                self.set_id.append(7_000_000_000 * (number + 1))
                self.advantage.append(advantage)
                self.weight.append(weight)
                self.importance.append(importance)
        rows_per_mini = -(-max(map(len, bins)) // ranks) * ranks
        for rows in bins:  # padding rows carry another row's advantage on purpose: it must not matter
            while len(rows) < rows_per_mini:
                rows.append(len(self.set_id))
                self.set_id.append(-1 - len(self.set_id))
                self.advantage.append(1.5)
                self.weight.append(0.0)
                self.importance.append(2.0)
        self.bins = [[rows[i] for i in torch.randperm(len(rows), generator=g)] for rows in bins]
        count = len(self.set_id)
        prompts = [draw(2, 7) for _ in range(count)]
        lengths = [draw(1, 9) for _ in range(count)]
        tokens = lambda n: torch.randint(3, VOCABULARY, (n,), generator=g)  # noqa: E731
        self.prompts, self.responses = [tokens(n) for n in prompts], [tokens(n) for n in lengths]
        self.mask = [(torch.rand(n, generator=g) < 0.8).long() for n in lengths]  # also empty members
        for i, set_id in enumerate(self.set_id):
            if set_id < 0:
                self.mask[i].zero_()
        budget = max(p + n for p, n in zip(prompts, lengths, strict=True))
        self.budget = pick({"tokens": budget}, {"tokens": 3 * budget}, {"tokens": 10_000}, {"rows": 1}, {"rows": 3})
        with torch.no_grad():
            current = [self.log_probs(model, i)[0] for i in range(count)]
        self.old = [lp + noise * torch.randn(len(lp), generator=g) for lp in current]
        self.reference = [lp + 0.3 * torch.randn(len(lp), generator=g) for lp in current]

    def log_probs(self, model, row: int) -> tuple[torch.Tensor, torch.Tensor]:
        ids = torch.cat([self.prompts[row], self.responses[row]])
        start = len(self.prompts[row])
        logits = model(ids[None]).logits[0, start - 1 : -1].log_softmax(-1)
        entropy = -(logits.exp() * logits).sum(-1)
        return logits.gather(-1, ids[start:, None])[:, 0], entropy

    def reference_loss(self, model, rows: list[int]) -> torch.Tensor:
        """Equations 3, 4 and 7 written down set by set, all of them in one autograd graph."""
        o, total = self.options, 0.0
        clip = lambda r, a: -torch.minimum(r * a, r.clamp(1 - CLIP, 1 + CLIP) * a)  # noqa: E731
        for set_id in sorted({self.set_id[i] for i in rows if self.set_id[i] >= 0}):
            members = [i for i in rows if self.set_id[i] == set_id]
            advantage, weight, size = self.advantage[members[0]], self.weight[members[0]], len(members)
            outputs = [self.log_probs(model, i) for i in members]
            deltas = [(lp - self.old[i])[self.mask[i].bool()] for i, (lp, _) in zip(members, outputs, strict=True)]
            sums = [d.sum() / max(1, len(d)) if o["member_norm"] == "mean" else d.sum() for d in deltas]
            tokens = max(1, sum(len(d) for d in deltas))
            if o["unit"] == "set":
                scale = {"sqrt": size**-0.5, "none": 1.0, "mean": 1 / size}[o["cardinality_norm"]]
                loss = clip((scale * torch.stack(sums).sum()).exp(), advantage)
            elif o["unit"] == "member":
                loss = torch.stack([clip(s.exp(), advantage) for s in sums]).mean()
            else:
                loss = clip(torch.cat(deltas).exp(), advantage).sum() / tokens
            loss = self.importance[members[0]] * loss  # of the policy loss alone, not of entropy and KL
            for i, (lp, entropy) in zip(members, outputs, strict=True):
                keep = self.mask[i].bool()
                loss = loss - self.entropy_coeff * entropy[keep].sum() / tokens
                if self.kl:
                    loss = loss + 0.05 * kl_penalty(lp, self.reference[i], "low_var_kl")[keep].sum() / tokens
            total = total + weight * loss
        return total

    def clipped_share(self, model, rows: list[int]) -> float:
        """Share of its tokens that each set's clip cuts off, weighted as the sets' losses are."""
        share = 0.0
        for i in rows:
            if self.set_id[i] < 0:
                continue
            tokens = sum(int(m.sum()) for s, m in zip(self.set_id, self.mask, strict=True) if s == self.set_id[i])
            ratio = (self.log_probs(model, i)[0].detach() - self.old[i])[self.mask[i].bool()].exp()
            cut = ratio > 1 + CLIP if self.advantage[i] > 0 else ratio < 1 - CLIP
            share += self.weight[i] * int(cut.sum()) / max(1, tokens)
        return share

    def rank_rows(self, rank: int, ranks: int) -> list[int]:
        """verl's cut: mini-batch k is the union over ranks of the k-th slice of each rank's chunk."""
        chunks = []
        for rows in self.bins:
            share = len(rows) // ranks
            chunks += rows[rank * share : (rank + 1) * share]
        return chunks

    def batch(self, rows: list[int]) -> TensorDict:
        jagged = lambda values: torch.nested.as_nested_tensor([values[i] for i in rows], layout=torch.jagged)  # noqa: E731
        sizes = {s: self.set_id.count(s) for s in self.set_id}
        tokens = {s: sum(int(m.sum()) for i, m in zip(self.set_id, self.mask, strict=True) if i == s) for s in sizes}
        column = lambda values: torch.tensor([values[i] for i in rows])  # noqa: E731
        inputs = [torch.cat(pair) for pair in zip(self.prompts, self.responses, strict=True)]
        data = TensorDict(
            {
                "input_ids": jagged(inputs),
                "position_ids": jagged([torch.arange(len(x)) for x in inputs]),
                "prompts": jagged(self.prompts),
                "responses": jagged(self.responses),
                "response_mask": jagged(self.mask),
                "loss_mask": jagged(self.mask),
                "old_log_probs": jagged(self.old),
                "ref_log_prob": jagged(self.reference),
                "set_id": column(self.set_id),
                "srpo_advantage": column(self.advantage),
                "srpo_weight": column(self.weight),
                "srpo_importance": column(self.importance),
                "srpo_set_size": column([sizes[s] for s in self.set_id]),
                "srpo_set_tokens": column([tokens[s] for s in self.set_id]),
            },
            batch_size=len(rows),
        )
        tu.assign_non_tensor(
            data,
            num_mini_batch=self.mini_batches,
            epochs=1,
            seed=1,
            dataloader_kwargs={"shuffle": False},
            temperature=1.0,
            global_batch_size=len(self.set_id),
            calculate_entropy=self.entropy_coeff != 0,
            srpo=self.options,
        )
        return data


def main() -> None:
    torch.set_num_threads(1)
    folder, seeds = sys.argv[1], [int(s) for s in sys.argv[2].split(",")]
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    worker = build_worker(folder)
    model = Qwen2ForCausalLM.from_pretrained(folder, attn_implementation="eager").float()
    gradients: list[dict[str, torch.Tensor]] = []

    def hand_out_gradients() -> float:
        named = {n: p.grad.full_tensor() for n, p in worker.engine.module.named_parameters() if p.grad is not None}
        gradients.append({name: gradient.clone() for name, gradient in named.items()})
        return 0.0

    worker.engine.optimizer_step = hand_out_gradients
    for seed in seeds:
        case = Case(seed, ranks, model)
        worker.actor_config = SimpleNamespace(
            entropy_coeff=case.entropy_coeff, use_kl_loss=case.kl, kl_loss_coef=0.05, kl_loss_type="low_var_kl"
        )
        worker.engine_config.use_dynamic_bsz = "tokens" in case.budget
        worker.engine_config.max_token_len_per_gpu = case.budget.get("tokens")
        worker.engine_config.micro_batch_size_per_gpu = case.budget.get("rows")
        gradients.clear()
        output = worker.train_mini_batch(case.batch(case.rank_rows(rank, ranks)))
        if rank == 0:
            report(seed, case, model, gradients, tu.get(output, "metrics"))
    torch.distributed.destroy_process_group()


def report(seed: int, case: Case, model, gradients, metrics) -> None:
    worst, losses = 0.0, []
    for rows, got in zip(case.bins, gradients, strict=True):
        model.zero_grad()
        loss = case.reference_loss(model, rows)
        loss.backward()
        losses.append(loss.item())
        scale = torch.stack([p.grad.norm() for p in model.parameters()]).norm().item()
        for name, parameter in model.named_parameters():
            worst = max(worst, ((got[name] - parameter.grad).norm() / max(scale, 1e-12)).item())
    line = {
        "seed": seed,
        "worst": worst,
        "loss": [float(x) for x in metrics["loss"]],
        "reference_loss": losses,
        "clipped": [float(x) for x in metrics.get("pg_clipfrac", [])],
        "reference_clipped": [case.clipped_share(model, rows) for rows in case.bins],
        "extra_pass": [float(x) for x in metrics["srpo/extra_pass"]],
        "budget": case.budget,
        "unit": case.options["unit"],
        "mini_batches": case.mini_batches,
    }
    print("CASE " + json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
