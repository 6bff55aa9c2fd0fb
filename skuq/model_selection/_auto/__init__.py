"""Search for the best distribution: search space, time budget, evaluation, search methods, final choice."""
