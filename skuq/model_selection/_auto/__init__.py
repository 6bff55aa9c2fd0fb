"""Search for the best distribution: space, time budget, evaluation, search methods and final choice."""
