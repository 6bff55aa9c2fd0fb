"""Parts of the distribution of a forest: trees, leaf weights, out-of-bag rows, infinitesimal jackknife."""
