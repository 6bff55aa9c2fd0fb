"""Internal interface of the metrics: all private functions that other packages use.

Recalibrators that use a single formula import it from its own module.
"""

from skuq.metrics._average_calibration import curve_rows
from skuq.metrics._binning import Binning
from skuq.metrics._class_inputs import (
    ClassForecast,
    check_class,
    check_class_forecast,
    check_class_labels,
    check_classes,
    check_labels,
    claimed_mass,
    draw_codes,
    is_in_set,
    kind_of,
    sets_of,
)
from skuq.metrics._conditional_coverage import coverage_risk
from skuq.metrics._decomposition.crps_parts import DEFAULT_LEVELS, crps_levels, crps_sections
from skuq.metrics._decomposition.sections import (
    ClassSections,
    MeanSections,
    QuantileSections,
    Sections,
    ThresholdSections,
)
from skuq.metrics._expected_calibration import class_table_of_sums
from skuq.metrics._group_calibration import RowGroups, Squares
from skuq.metrics._inputs import (
    Forecast,
    check_forecast,
    check_forecast_or_bounds,
    finite_mean,
    finite_std,
    has_no_rows,
    intervals_around,
)
from skuq.metrics._intervals import coverage_rows, width_rows
from skuq.metrics._kernels import BLOCK, covered, level_grid
from skuq.metrics._levels import proportions_of_means
from skuq.metrics._make_scorer import check_options, require_spec
from skuq.metrics._prediction_sets import set_mass_rows
from skuq.metrics._proper import censored_nll_rows, nll_rows
from skuq.metrics._scorer import DistributionScorer, MetricScorer
from skuq.metrics._spec import (
    MetricFunction,
    MetricSpec,
    OrderedWeights,
    WeightFunction,
    all_specs,
    find_spec,
    warn_of_small_report,
)
from skuq.metrics._ucc.kernels import critical_scales

__all__ = [
    "BLOCK",
    "DEFAULT_LEVELS",
    "Binning",
    "ClassForecast",
    "ClassSections",
    "DistributionScorer",
    "Forecast",
    "MeanSections",
    "MetricFunction",
    "MetricScorer",
    "MetricSpec",
    "OrderedWeights",
    "QuantileSections",
    "RowGroups",
    "Sections",
    "Squares",
    "ThresholdSections",
    "WeightFunction",
    "all_specs",
    "censored_nll_rows",
    "check_class",
    "check_class_forecast",
    "check_class_labels",
    "check_classes",
    "check_forecast",
    "check_forecast_or_bounds",
    "check_labels",
    "check_options",
    "claimed_mass",
    "class_table_of_sums",
    "coverage_risk",
    "coverage_rows",
    "covered",
    "critical_scales",
    "crps_levels",
    "crps_sections",
    "curve_rows",
    "draw_codes",
    "find_spec",
    "finite_mean",
    "finite_std",
    "has_no_rows",
    "intervals_around",
    "is_in_set",
    "kind_of",
    "level_grid",
    "nll_rows",
    "proportions_of_means",
    "require_spec",
    "set_mass_rows",
    "sets_of",
    "warn_of_small_report",
    "width_rows",
]
