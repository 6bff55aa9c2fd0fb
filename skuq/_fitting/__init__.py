"""Parts of all meta-estimators: training data, cross-fitting, seeds, metadata, base class."""
