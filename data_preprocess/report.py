"""What became of the rows: counted for the manifest and the terminal."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

LISTED_ROWS = 1000  # row numbers in the manifest per reason


@dataclass
class Report:
    """The rows of one source in one split. Row numbers count from 0 over all files of the source."""

    source: str
    split: str
    origin: str
    rows_read: int = 0
    rows_written: Counter = field(default_factory=Counter)  # by data_source
    duplicates: int = 0
    duplicates_with_another_answer: int = 0
    same_prompt_in_test: int = 0
    left_out: Counter = field(default_factory=Counter)  # by data_source, on request
    refused: dict[str, list[int]] = field(default_factory=dict)  # by reason: row numbers

    def refuse(self, reason: str, row: int) -> None:
        """Notes that a row cannot be used."""
        self.refused.setdefault(reason, []).append(row)

    @property
    def all_refused(self) -> bool:
        """True also for a source without rows."""
        return self.rows_read == sum(map(len, self.refused.values()))

    def as_dict(self) -> dict[str, Any]:
        """For the manifest."""
        return {
            "source": self.source,
            "split": self.split,
            "origin": self.origin,
            "rows_read": self.rows_read,
            "rows_written": dict(sorted(self.rows_written.items())),
            "duplicates": self.duplicates,
            "duplicates_with_another_answer": self.duplicates_with_another_answer,
            "same_prompt_in_test": self.same_prompt_in_test,
            "left_out": dict(sorted(self.left_out.items())),
            "refused": {
                reason: {"count": len(rows), "rows": rows[:LISTED_ROWS]}
                for reason, rows in sorted(self.refused.items())
            },
        }

    def __str__(self) -> str:
        parts = [f"{self.rows_written.total()} of {self.rows_read} rows"]
        if self.duplicates:
            other = self.duplicates_with_another_answer
            parts.append(f"{self.duplicates} duplicates" + (f" ({other} with another answer)" if other else ""))
        if self.same_prompt_in_test:
            parts.append(f"{self.same_prompt_in_test} also in the test sets")
        if self.left_out:
            parts.append(f"{self.left_out.total()} of other sets")
        for reason, rows in sorted(self.refused.items()):
            numbers = ", ".join(map(str, rows[:5])) + (", ..." if len(rows) > 5 else "")
            parts.append(f"{len(rows)} refused: {reason} (rows {numbers})")
        return f"{self.split} {self.source} [{self.origin}]: " + "; ".join(parts)
