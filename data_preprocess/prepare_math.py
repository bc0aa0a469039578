"""Prepares math data for verl.

Example, from the hub and from local copies:

    python data_preprocess/prepare_math.py --train dapo=/data/dapo.parquet --test math500 aime24 --out data/math
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from data_preprocess.prepare import Task, main
from data_preprocess.sources import MATH
from data_preprocess.writing import MATH_SCHEMA

TASK = Task(MATH, MATH_SCHEMA, ability="math", ground_truth=lambda truth: truth)

if __name__ == "__main__":
    sys.exit(main(TASK, __doc__, None))
