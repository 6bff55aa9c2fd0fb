"""What the guides claim of their own results, checked when they run in the build of the documentation.

``conf.py`` gives `check_claims` and `warnings_are_errors` to sphinx-gallery. Without a built documentation,
`tests/test_docs.py` runs the guides and checks the same claims.
"""

import warnings
from contextlib import ExitStack
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CLAIMS = {
    "docs/guides/how_to/choose_a_method.py": [
        "(table.loc['coverage'] > 0.78).all() and (table.loc['coverage'] < 0.88).all()",
        "(confidence_interval[:, 0] > prediction_interval[:, 0]).all()",
        "(table.T['width, x2 > 2'] / table.T['width, x2 < 1'] > 3)[['UncertaintyRegressor',"
        " 'MultiQuantileRegressor', 'truth']].all()",
        # One width for all rows.
        "all(np.ptp(widths[m]) < 0.1 * widths[m].min()"
        " for m in ('LeastSquaresRegressor', 'BootstrapRegressor'))",
        "models[2].n_calibration_ == 75",
    ],
    "docs/guides/how_to/choose_a_metric.py": [
        "round(overall, 2) == 0.9",
        "by_feature['coverage'].round(3).tolist() == [0.982, 0.892, 0.826]",
        "by_feature['standard_error'].round(3).tolist() == [0.013, 0.013, 0.013]",
    ],
    "docs/guides/how_to/cluster.py": ["best == search.best_params_"],
    "docs/guides/how_to/compare_two_models.py": [
        "[round(v, 3) for v in test.values] == [0.227, 0.236] and round(test.difference, 3) == -0.009",
        "by_second == {'spline': [1.0, 0.96, 0.87, 0.84], 'trees': [1.0, 0.95, 0.86, 0.84]}",
        "round(test.p_value, 3) == 0.002 and 'difference -0.009' in sentence",
        "round(skill['spline'].low, 2) == 0.46 and round(skill['trees'].high, 2) == 0.49",
        "[round(v, 3) for v in report.loc['ence', 'value']] == [0.153, 0.07]",
        "(report.loc[['crps', 'nll']].xs('spline', level=1)['value']"
        " < report.loc[['crps', 'nll']].xs('trees', level=1)['value']).all()",
    ],
    "docs/guides/how_to/conditional_coverage.py": [
        "0.89 < overall < 0.92 and 4 < estimate.error / estimate.standard_error < 7",
        "round(typical, 2) == 0.12 and 0.7 < min(slabs) and max(slabs) < 0.88",
        "profile['angle'] > 0.5 and profile['frequency'] < -0.4 and profile['chord'] < -0.4",
        "by_angle['coverage'].round(2).tolist() == [0.97, 0.96, 0.81, 0.87]",
        "in_groups['one width']['low'] < 0.87 and abs(in_groups['by group'] - 0.91).max() < 0.01",
        "(abs(table['coverage'] - 0.9) < 0.01).all()",
        "0.6 < table['error']['by group'] / table['error']['one width'] < 0.75",
        "0.87 < 1 - table['error']['normalized'] / table['error']['one width'] < 0.95",
        "table['interval score'].idxmin() == table['width'].idxmin() == 'normalized'",
    ],
    "docs/guides/how_to/conformal.py": [
        "several.shape == (2000, 2, 3) and round(overall, 2) == 0.91",
        "by_size == {'split': [0.99, 0.92, 0.82], 'normalized': [0.94, 0.88, 0.88],"
        " 'cqr': [0.94, 0.89, 0.9]}",
        "[by_shop[m].round(2).tolist() for m in by_shop] == [[0.96, 0.79], [0.91, 0.88], [0.01, 0.01]]",
        "140 < X['shop'].to_numpy()[grouped.calibration_rows_].sum() < 160",
        "len(calibrated.predict_dist(X_new)) == 2000",
        "split.n_calibration_ == 500 and folds.n_calibration_ == 2000",
        "(round(ignored, 2), round(weighted, 2)) == (0.83, 0.91)",
        "all(0.88 < c < 0.92 for c, _ in adapted.values())",
        "(round(without, 2), round(with_feedback, 2)) == (0.73, 0.91)",
        "recent_share[1100] > 0.9",  # two hundred rows after the change
    ],
    "docs/guides/how_to/decide.py": [
        "costs.round(2).to_numpy()[:, :2].tolist() == [[1.21, 1.53], [1.38, 1.32]]",
        "(costs['cost of the mean'] > 2.8 * costs['cost']).all()",
        "abs(searched - exact).max() < 1e-5 and (in_cans % 0.5 == 0).all()",
        "(values['mean only'] < values['forest'] - 0.3).tolist() == [True, True, False, False]",
        "0 < low < saved.mean() < high < 0.4",
        "estimates.round(2).to_numpy().tolist()"
        " == [[0.9, 0.91, 0.89], [1.48, 0.91, 1.47], [0.9, 0.91, 1.33]]",
    ],
    "docs/guides/how_to/explain_uncertainty.py": [
        "importances.idxmax().tolist() == ['noise', 'mean']",
        "relative.round(2).tolist() == [2.72, 1.16, 1.08]",
    ],
    "docs/guides/how_to/extend.py": [
        "search.best_params_ == {'estimator__min_samples_leaf': 20}",
        "shifted.best_params_ == {'shiftrecalibrator__level': 0.5}",
        "kernel.best_params_ == {'kernelregressor__gamma': 100.0}",
        "interval.low < center_crps(y_new, dist) < interval.high",
        "abs(coverage - 0.9) < 0.05 and widths[1] > 2 * widths[0]",
    ],
    "docs/guides/how_to/foundation_models.py": [
        "table['pool']['CRPS'] < table['recalibrated']['CRPS'] < table['Attention']['CRPS']",
        "table['recalibrated']['coverage'] < table['Attention']['coverage'] > 0.97",
    ],
    "docs/guides/how_to/intervals_too_narrow.py": [
        "(round(in_sample, 2), round(held_out, 2), round(two_errors, 2)) == (0.86, 0.72, 0.02)",
        "by_width['coverage'].round(2).tolist() == [0.67, 0.69, 0.74, 0.79]",
        "by_feature['coverage'].round(2).tolist() == [0.91, 0.76, 0.63, 0.59]",
        "(round(bias, 2), round(factor, 2)) == (-0.02, 1.62) and tails.round(2).tolist() == [-1.63, 1.56]",
        "(table['rmse'] / table['rmv']).round(2).tolist() == [1.88, 1.61, 1.57, 1.3]",
        "[round(prediction_interval_coverage(y_new, d), 2) for d in forecasts.values()]"
        " == [0.74, 0.9, 0.9, 0.91]",
        "[round(crps_loss(y_new, d), 3) for d in forecasts.values()] == [0.391, 0.390, 0.387, 0.378]",
        "quarters.round(2).tolist() == [0.85, 0.88, 0.93, 0.95]",
        "round(crps_loss(y_new, widened.transform(new)), 3) == 0.39",
        "round(np.isin(dist.cdf(y[calibrating]), [0, 1]).mean(), 2) == 0.17",
        "scaled == [0.99, 0.94, 0.85, 0.8] and learned == [0.96, 0.92, 0.87, 0.86]",
        "by_group == [0.89, 0.89, 0.92, 0.93]",
    ],
    "docs/guides/how_to/kind_of_target.py": [
        "(table.xs('default', level=1)['impossible'] > 0.25).all()",
        "table.loc[('counts', 'default'), 'impossible'] > 0.95",
        "(table.drop('default', level=1)['impossible'] == 0).all()",
        "(table.xs('support', level=1) < table.xs('default', level=1))['CRPS / truth'].all()",
        "(table.xs('hurdle', level=1) < table.xs('support', level=1).tail(2))['CRPS / truth'].all()",
        "(abs(table.xs('hurdle', level=1)['CRPS / truth'] - [1.03, 1.05]) < 0.01).all()",
        "table.loc[('counts', 'support'), 'coverage'] > 0.93",
        "np.corrcoef(per_year, np.exp(signal[test]))[0, 1] > 0.9",
    ],
    "docs/guides/how_to/large_data.py": [
        "together.result() == total.result()",
        "all(np.isclose(on_dask.result()[name], value) for name, value in total.result().items())",
        # What the functions for Spark do, without Spark.
        "pickle.loads(next(accumulate_frames([frame.compute()]))['state'][0]).n_rows == 200_000",
    ],
    "docs/guides/how_to/monitor.py": [
        "alarm.month == 10",
        "table['flag'].tolist() == [False] * 9 + [True] * 3",
        "(table['rmse_to_rmv'][9:] > 1.1).all() and np.ptp(table['width']) < 1e-3",
        "by_quarter['flag'].tolist() == [False] * 3 + [True]",
    ],
    "docs/guides/how_to/networks.py": [
        "0.8 < coverage < 0.98 and len(losses) == 2 and len(scores) == 9 and best in rates",
        "dist.aleatoric().std()[X_new[:, 1] > 0].mean() > 1.5 * dist.aleatoric().std()[X_new[:, 1] < 0]"
        ".mean()",
        "prediction_interval_coverage(y_new, custom.predict_dist(X_new)) > 0.75",
        "prediction_interval_coverage(y_new, with_callback.predict_dist(X_new)) > 0.75",
        "prediction_interval_coverage(y_new, calibrated.predict_dist(X_new)) > 0.75",
        "prediction_interval_coverage(y, out_of_fold) > 0.75 and search.best_score_ > -0.4",
        "wrapped.predict_dist(X_new.astype(np.float32)).mean().std() > 0.3",  # not a constant
    ],
    "docs/guides/how_to/prediction_sets.py": [
        "plain < 0.93 < covered and covered > 0.935",
        "by_score == {'lac': [0.73, 0.98, 1.33], 'aps': [0.87, 0.98, 1.89]}",
        "min(digit['together']) < 0.87 and min(digit['by class']) >= 0.93",
        "shifted['without'][0] < 0.9 and shifted['with'][0] >= 0.95",
    ],
    "docs/guides/how_to/recalibrate.py": [
        "prediction_interval_coverage(y_test, before) < 0.65",
        "0.85 < prediction_interval_coverage(y_test, predict_dist(pipeline, X_test)) < 0.95",
        "all(0.86 < share < 0.94 for share in coverages.values())",  # 0.9, two standard deviations of 0.02
    ],
    "docs/guides/how_to/select_by_crps.py": [
        "search.best_params_['estimator__selectkbest__k'] == 2",
        "abs(results.loc[1, 'mean_test_score'] - results.loc[6, 'mean_test_score']) < 0.003",
    ],
    "docs/guides/how_to/sequences.py": [
        "table.loc['fixed', 'coverage'] < 0.65 and table.loc['online', 'coverage'] > 0.87",
        "table.loc['online', 'CRPS'] < 0.96 * table.loc['fixed', 'CRPS']",
        "((coverage > 0.85) & (coverage < 0.95)).all()",
        "1.5 * joint.std()[0].max() < np.diff(of_sum)[0, 0] / 3.3 < 4 * joint.std()[0].max()",
        "len(pending) == 10 and np.nanmax(targets) == 51",
    ],
    "docs/guides/how_to/shifted_data.py": [
        "(noisy['forest', 'coverage'] < [0.93, 0.75, 0.5]).all()",
        "0.7 < noisy['least squares', 'coverage'][1.0] < 0.8",
        "(noisy.max() - noisy.min())[[('forest', 'width'), ('least squares', 'width')]].max() < 0.5",
        "effective[0] == 301 and effective[-1] < 50",
        "coverage['without'] < 0.85 and 0.89 < coverage['with'] < 0.93",
        "moved['set_coverage'][2] < 0.2 and moved['set_size'][2] < 1.1",
    ],
    "docs/guides/how_to/waiting_times.py": [
        "report.table.loc['ipcw_crps', 'boosting'] < report.table.loc['ipcw_crps', 'Cox']",
        "(report.table.loc['coverage_low'] < 0.9).all()",
        "(report.table.loc['coverage_high'] > 0.9).all()",
        "abs(best['CRPS of all times'] - 1) < 0.03 and abs(best['censored nll'] - 1) < 0.03",
        "best['survival CRPS (improper)'] < 0.93",
    ],
    "docs/guides/how_to/wrap_your_own.py": ["len(dist) == 100", "len(gamma) == 2"],
    "docs/guides/how_to/your_data.py": ["covered['rows'] < 0.86 and 0.87 < covered['patients'] < 0.93"],
    "docs/guides/tutorials/getting_started.py": [
        "0.85 < coverage < 0.95 and np.allclose(bounds, dist.interval(0.9))",
        "best_crps < crps < 0.9 * absolute_error",
        "len(best) == len(y_test)",
        "(before.cdf(y_test) == 0).mean() > 0.2 and (before.cdf(y_test) == 1).mean() > 0.25",
        "prediction_interval_coverage(y_test, before) < 0.5",
        "abs(prediction_interval_coverage(y_test, after) - 0.9) < 2 * 0.02",
        "search.best_params_ == {'estimator__min_samples_leaf': 100}",
        "crps_loss(y_test, after) < 0.9 * crps_loss(y_test, before)",
        "abs(crps_loss(y_test, after) - crps) < 0.01",
    ],
}

filters = ExitStack()


def check_claims(block, block_vars, gallery_conf):
    """Check the claims of a script after its last block of code.

    sphinx-gallery calls this after each block to find images, and gets none.
    """
    from sphinx_gallery.py_source_parser import split_code_and_text_blocks  # the tests do not need it

    script = block_vars["src_file"]
    name = Path(script).relative_to(ROOT).as_posix()
    blocks = split_code_and_text_blocks(script)[1]
    if block.lineno == max(each.lineno for each in blocks if each.type == "code"):
        for claim in CLAIMS.get(name, []):
            if not eval(claim, block_vars["example_globals"]):
                raise AssertionError(f"{name}: {claim}")
    return ""


def warnings_are_errors(gallery_conf, script, when):
    """Raise an error for each warning of a script that Python shows by default or that skuq causes."""
    if when == "before":
        filters.enter_context(warnings.catch_warnings(action="error", append=True))
        warnings.filterwarnings("error", category=DeprecationWarning, module=r"__main__|skuq\b")
        # joblib issues it in a thread, which an error would end: the tasks would never finish.
        warnings.filterwarnings("ignore", "A worker stopped while some jobs were given", UserWarning)
    else:
        filters.close()
