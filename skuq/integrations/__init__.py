"""Integrations of other packages, one module each; other modules of skuq do not import them."""
