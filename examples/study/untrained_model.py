"""Makes a model for `demo/joint`: the quickstart's, but untrained, so that every token is about as likely as any other.

The quickstart's own model comes from sums and opens nearly always with the same digit, which one player's partner has
learned to answer after four steps; from an even start both have to settle on something together.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from make_model import make_model, make_tokenizer  # of the quickstart
from transformers.utils.logging import disable_progress_bar

SPREAD = 4.0
"""What the output layer's weights are multiplied by: logits with a standard deviation near 1 instead of 0.25."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()

    disable_progress_bar()
    tokenizer = make_tokenizer(["user", "assistant", "alice, write.", "bob, write."])
    model = make_model(tokenizer, arguments.seed)
    with torch.no_grad():
        model.lm_head.weight.mul_(SPREAD)
    model.save_pretrained(arguments.output)
    tokenizer.save_pretrained(arguments.output)


if __name__ == "__main__":
    main()
