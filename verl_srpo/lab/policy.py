"""One small policy shared by all agents, held B times side by side: B seeds train in the same matrix products."""

import math

import torch
from torch import Tensor, nn

from .game import Batch, Game


class Policies(nn.Module):
    """B independent policies. Each gives the next token's distribution from the task, the place in the set, and the
    text.

    An embedding each of target, rank, position and previous token, added up, then one hidden layer. Every parameter
    has a leading dimension B, and policy b starts from its own generator: what it learns does not depend on the
    others.
    """

    target: Tensor
    rank: Tensor
    position: Tensor
    previous: Tensor
    inner: Tensor
    outer: Tensor

    def __init__(self, game: Game, generators: list[torch.Generator], hidden: int = 32):
        super().__init__()
        self.game = game
        shapes = {
            "target": (game.vocabulary, hidden),
            "rank": (game.largest_set, hidden),
            "position": (game.tokens, hidden),
            "previous": (game.vocabulary + 1, hidden),
            "inner": (hidden, hidden),
            "outer": (hidden, game.vocabulary),
        }
        for name, shape in shapes.items():
            scale = 1 / math.sqrt(shape[0]) if name in ("inner", "outer") else 0.5
            values = [torch.randn(shape, generator=generator) * scale for generator in generators]
            self.register_parameter(name, nn.Parameter(torch.stack(values)))

    def logits(self, target: Tensor, rank: Tensor, position: Tensor, previous: Tensor) -> Tensor:
        """Logits (B, C, V) of contexts given as four (B, C) index tensors."""
        state = _pair(self.target, self.rank, target, rank) + _pair(self.position, self.previous, position, previous)
        return torch.relu(torch.relu(state) @ self.inner) @ self.outer

    def log_prob(self, batches: list[Batch], tokens: Tensor) -> Tensor:
        """Log-probabilities (B, N, T) of sampled tokens (B, N, T)."""
        seeds, rows, length = tokens.shape
        start = torch.full((seeds, rows, 1), self.game.vocabulary)
        previous = torch.cat([start, tokens[..., :-1]], 2).flatten(1)
        target = torch.stack([batch.target for batch in batches]).repeat_interleave(length, 1)
        rank = torch.stack([batch.rank for batch in batches]).flatten(1)
        position = torch.arange(length).repeat(rows).expand(seeds, -1)
        logits = self.logits(target, rank, position, previous)
        chosen = logits.gather(2, tokens.flatten(1)[..., None]).squeeze(2) - logits.logsumexp(2)
        return chosen.view(seeds, rows, length)

    @torch.no_grad()
    def sample(self, batches: list[Batch], generators: list[torch.Generator]) -> Tensor:
        """Sample tokens (B, N, T), each seed with its own generator."""
        rows = len(batches[0].target)
        uniform = torch.stack([torch.rand(rows, self.game.tokens, generator=generator) for generator in generators])
        target = torch.stack([batch.target for batch in batches])
        rank = torch.stack([batch.rank for batch in batches])
        previous = torch.full_like(target, self.game.vocabulary)
        tokens = []
        for position in range(self.game.tokens):
            where = torch.full_like(target, position)
            odds = self.logits(target, rank[..., position], where, previous).softmax(2)
            below = odds.cumsum(2)[..., :-1] < uniform[..., position, None]  # the last token takes what rounding leaves
            previous = below.sum(2)
            tokens.append(previous)
        return torch.stack(tokens, 2)


def _pair(first: Tensor, second: Tensor, i: Tensor, j: Tensor) -> Tensor:
    """``first[b, i] + second[b, j]`` for tables (B, F, H), (B, S, H) and indices (B, C): one look-up in their sums."""
    table = (first[:, :, None] + second[:, None]).flatten(1, 2)
    offset = torch.arange(len(table))[:, None] * table.shape[1]
    index = offset + i * second.shape[1] + j
    return table.flatten(0, 1).index_select(0, index.flatten()).view(*index.shape, -1)
