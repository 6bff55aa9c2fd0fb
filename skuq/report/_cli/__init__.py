"""Commands of ``python -m skuq``. Only this package may print."""
