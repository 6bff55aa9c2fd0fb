"""Other packages together with skuq, one module each; nothing else in skuq imports them."""
