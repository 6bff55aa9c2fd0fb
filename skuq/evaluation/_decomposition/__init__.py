"""Score decompositions and reliability diagrams by isotonic recalibration."""
