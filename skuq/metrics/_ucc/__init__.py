"""The uncertainty characteristics curve: coordinates, curve, area and comparison of models."""
