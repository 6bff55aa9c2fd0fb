"""Training: plans of fits, and the loop that trains many fits at once."""
