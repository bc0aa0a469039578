"""`verl-srpo check`: would training start here, and if not, why not."""
