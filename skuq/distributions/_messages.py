"""Error messages of distributions without a mean, a density or a decomposition."""

NO_MEAN = "the distribution must have a mean, but both tails are too heavy at row {row}. Use quantiles."

NO_DENSITY = (
    "this {kind} has no density, because a row has atoms (point masses or ties). Therefore, `pdf` and "
    "`logpdf` are undefined. The log score is only defined if every row is discrete (`has_mass`). Use "
    "`crps`, use `logpmf` for the masses of atoms, or use a family with a density."
)

NO_DECOMPOSITION = (
    "this {kind} does not separate epistemic from aleatoric uncertainty. Use a model that separates them: "
    "LeastSquaresRegressor, BootstrapRegressor, ForestDistributionRegressor or GaussianProcessRegressor. "
    "The separation is lost if a distribution is recalibrated, or transformed by a function that is not "
    "affine."
)
