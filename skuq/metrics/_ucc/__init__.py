"""The uncertainty characteristics curve: its coordinates, the curve, its area and its comparison."""
