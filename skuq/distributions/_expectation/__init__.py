"""Expected values of functions of the outcome."""
