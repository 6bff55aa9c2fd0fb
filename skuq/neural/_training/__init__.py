"""Plans of fits, and the joint training of many fits."""
