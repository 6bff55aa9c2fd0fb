"""The search for the best distribution: its space, budget, evaluation, engines and last choice."""
