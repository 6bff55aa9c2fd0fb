"""Common parts of all meta-estimators: training data, cross-fitting, seeds, metadata and the base class."""
