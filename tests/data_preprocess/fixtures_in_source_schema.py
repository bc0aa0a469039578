"""A few rows of every source in its own schema, with the traps that the real ones have."""

import bz2
import gzip
import json
import lzma
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

ROOT = Path(__file__).resolve().parents[2]

DAPO_HEAD = (
    "Solve the following math problem step by step. The last line of your response should be of the form Answer: "
    "$Answer (without quotes) where $Answer is the answer to the problem.\n\n"
)
DAPO_TAIL = '\n\nRemember to put your answer on its own line after "Answer:".'
BOXED_TAIL = "\n\nLet's think step by step and output the final answer within \\boxed{}."


def _verl(question: str, truth: str, index: str) -> dict:
    return {
        "data_source": "math_dapo",
        "prompt": [{"content": question, "role": "user"}],
        "ability": "MATH",
        "reward_model": {"ground_truth": truth, "style": "rule-lighteval/MATH_v2"},
        "extra_info": {"index": index},
    }


# name -> (rows, the questions and truths that they must give)
MATH_ROWS: dict[str, tuple[list[dict], list[tuple[str, str]]]] = {
    "gsm8k": (
        [
            {"question": "How many?", "answer": "He has 1,000 + 234 = <<1000+234=1234>>1,234\n#### 1,234"},
            {"question": "How much less?", "answer": "It is\n#### -5"},
        ],
        [("How many?", "1234"), ("How much less?", "-5")],
    ),
    "math": (
        [
            {
                "problem": "Compute $x$.",
                "solution": r"First \boxed{1}, then $\boxed{\frac{1}{\sqrt{2}}}$.",
                "level": "Level 3",
                "type": "Algebra",
            },
            {"problem": "Find the set.", "solution": r"So \boxed{\{1, 2\}}.", "level": "Level 5", "type": "Algebra"},
        ],
        [("Compute $x$.", r"\frac{1}{\sqrt{2}}"), ("Find the set.", r"\{1, 2\}")],
    ),
    "dapo": (
        [_verl(DAPO_HEAD + "What is $1+1$?" + DAPO_TAIL, "2", "a")] * 3
        + [_verl(DAPO_HEAD + "What is $2+2$?" + DAPO_TAIL, "4", "b")],
        [("What is $1+1$?", "2"), ("What is $2+2$?", "4")],
    ),
    "dapo_filter": (
        [_verl("What is $3+3$?" + BOXED_TAIL, "6", "c"), _verl("What is $4+4$?" + BOXED_TAIL, "8", "d")],
        [("What is $3+3$?", "6"), ("What is $4+4$?", "8")],
    ),
    "deepscaler": (
        [{"problem": "Sum?", "answer": r"\frac{3}{4}", "solution": r"It is \boxed{\frac{3}{4}}"}],
        [("Sum?", r"\frac{3}{4}")],
    ),
    "math500": (
        [
            {
                "problem": "Polar form?",
                "solution": r"\boxed{\left( 3, \frac{\pi}{2} \right)}",
                "answer": r"\left( 3, \frac{\pi}{2} \right)",
                "subject": "Precalculus",
                "level": 2,
                "unique_id": "test/precalculus/807.json",
            }
        ],
        [("Polar form?", r"\left( 3, \frac{\pi}{2} \right)")],
    ),
    "aime24": (
        [{"id": 60, "problem": "Walk?", "solution": "...", "answer": "025", "url": "u", "year": "2024"}],
        [("Walk?", "025")],
    ),
    "aime25": (
        [{"problem_idx": 1, "answer": 70, "problem": "Bases?", "problem_type": ["Number Theory"]}],
        [("Bases?", "70")],
    ),
    "amc23": ([{"id": 0, "problem": "Mile?", "answer": 27.0, "url": "u"}], [("Mile?", "27")]),
    "minerva": (
        [{"problem": "Energy?", "solution": "...", "answer": r"1.6\times 10^{-19}", "type": "Physics", "idx": 0}],
        [("Energy?", r"1.6\times 10^{-19}")],
    ),
    "olympiadbench": (
        [{"problem": "Prove?", "answer": ["$2n$"], "solution": "..."}],
        [("Prove?", "$2n$")],
    ),
}


def search_row(index: int, question: str, golds: list, data_source: str) -> dict:
    return {
        "id": f"{data_source}_{index}",
        "question": question,
        "golden_answers": golds,
        "data_source": data_source,
        "prompt": [{"role": "user", "content": f"Answer the given question. {question}"}],
        "ability": "fact-reasoning",
        "reward_model": {"ground_truth": {"target": golds}, "style": "rule"},
        "extra_info": {"index": index, "split": "train"},
        "metadata": {"type": "bridge", "supporting_facts": {"title": ["A"], "sent_id": [0]}},
    }


def write(rows: list[dict], path: Path) -> Path:
    """Writes rows in the format that the name asks for."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = "".join(json.dumps(row) + "\n" for row in rows).encode()
    whole = json.dumps(rows).encode()
    content = lines if ".jsonl" in path.name else whole
    match path.suffix:
        case ".parquet":
            pq.write_table(pa.Table.from_pylist(rows), path)
        case ".gz":
            path.write_bytes(gzip.compress(content))
        case ".bz2":
            path.write_bytes(bz2.compress(content))
        case ".xz":
            path.write_bytes(lzma.compress(content))
        case ".zst":
            path.write_bytes(pa.compress(content, codec="zstd", asbytes=True))
        case _:
            path.write_bytes(content)
    return path
