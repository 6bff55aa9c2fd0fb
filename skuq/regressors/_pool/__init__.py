"""Members of a pool of distributions, and the weights that minimize the CRPS."""
