"""Shape of the standardized residuals as a function of x, by trees on their probability levels."""
