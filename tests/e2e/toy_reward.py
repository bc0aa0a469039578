"""A reward that random text spreads over 0 to 1, so that a random model's sets have advantages."""


def compute_score(data_source, solution_str, ground_truth, extra_info=None, **kwargs):
    score = sum(solution_str.encode()) % 8 / 7
    return {"score": score, "acc": float(score == 1.0)}
