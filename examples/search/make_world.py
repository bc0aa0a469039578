"""Makes the self-made search world: a fact corpus, training and test questions in verl's parquet.

python examples/search/make_world.py --out DIR [--level easy|medium|hard] [--kinds one_hop two_hop] [--seed 0]
"""

import argparse
from pathlib import Path

from verl_srpo.retrieval.world import KINDS, LEVELS, UNITS, WorldSettings, make_world
from verl_srpo.retrieval.world_files import write_world


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument(
        "--level", choices=tuple(LEVELS), default="easy", help="what the difficulty settings start from"
    )
    parser.add_argument("--unit", choices=UNITS, help="what a passage holds")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, help="of questions")
    parser.add_argument("--paraphrases", type=int, help="ways of asking, 1 to 3")
    parser.add_argument("--distractors", type=int, help="sentences a passage that answer nothing")
    for name in ("seed", "people", "companies", "cities", "books", "train_questions", "test_questions"):
        parser.add_argument(f"--{name.replace('_', '-')}", type=int)
    given = {name: value for name, value in vars(parser.parse_args()).items() if value is not None}
    out, level = given.pop("out"), given.pop("level")
    if "kinds" in given:
        given["kinds"] = tuple(given["kinds"])
    try:
        world = make_world(WorldSettings.level(level, **given))
    except ValueError as error:
        parser.error(str(error))
    manifest = write_world(world, out)
    counts = manifest["questions"]
    print(f"{out}: {manifest['passages']} passages, {counts['train']} training and {counts['test']} test questions")


if __name__ == "__main__":
    main()
