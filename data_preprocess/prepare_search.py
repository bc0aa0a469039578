"""Prepares multi-hop question answering data for verl.

Example, the HotpotQA part for training and all seven sets for tests:

    python data_preprocess/prepare_search.py --train nq_hotpotqa --train-only hotpotqa --test nq_hotpotqa \\
        --out data/search
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from data_preprocess.converters import SEARCH_SETS
from data_preprocess.prepare import Task, main
from data_preprocess.sources import SEARCH
from data_preprocess.writing import SEARCH_SCHEMA

TASK = Task(SEARCH, SEARCH_SCHEMA, ability="fact-reasoning", ground_truth=lambda truth: {"target": truth})

if __name__ == "__main__":
    sys.exit(main(TASK, __doc__, None, SEARCH_SETS))
