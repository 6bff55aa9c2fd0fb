"""Shape of the standardized residuals as a function of x, from trees fitted to their levels."""
