"""Shape of the standardized residuals as a function of x."""
