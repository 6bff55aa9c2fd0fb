"""The stacked modules: the networks of all members as one, and their foundations."""
