"""Trees, leaf weights, out-of-bag rows and infinitesimal jackknife of forests on bootstrap rows."""
