"""Parts that all meta-estimators share: training data, cross-fitting, seeds, metadata and the base class."""
