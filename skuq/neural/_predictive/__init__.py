"""From trained members to a predictive distribution."""
