"""The variational Gaussian process that three recalibrators use."""
