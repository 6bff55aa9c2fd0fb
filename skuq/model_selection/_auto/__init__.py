"""Search for the best distribution: space, budget, evaluation, engines and final choice."""
