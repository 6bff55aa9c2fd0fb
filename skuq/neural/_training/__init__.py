"""Training: what is to be trained, and the loop that trains many fits at once."""
