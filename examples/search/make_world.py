"""Makes the self-made search world: a fact corpus, training and test questions in verl's parquet.

python examples/search/make_world.py --out DIR [--level easy|medium|hard] [--seed 0]
"""

import argparse
from pathlib import Path

from verl_srpo.retrieval.world import LEVELS, WorldSettings, make_world
from verl_srpo.retrieval.world_files import write_world


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--level", choices=tuple(LEVELS), default="easy")
    defaults = WorldSettings()
    for name in ("seed", "people", "companies", "cities", "books", "train_questions", "test_questions"):
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=getattr(defaults, name))
    arguments = vars(parser.parse_args())
    out, level = arguments.pop("out"), arguments.pop("level")
    try:
        world = make_world(WorldSettings.level(level, **arguments))
    except ValueError as error:
        parser.error(str(error))
    manifest = write_world(world, out)
    counts = manifest["questions"]
    print(f"{out}: {manifest['passages']} passages, {counts['train']} training and {counts['test']} test questions")


if __name__ == "__main__":
    main()
