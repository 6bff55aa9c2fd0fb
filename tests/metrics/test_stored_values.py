"""Values of metrics and reports equal the values of an earlier version (see `stored_values`)."""

import pytest

from tests.metrics.stored_values import differences, metric_values, read, report_values


def test_metrics_have_the_values_of_an_earlier_version():
    assert differences(metric_values(tens=(5, 11)), read("metric")) == []


@pytest.mark.laws
def test_all_metrics_and_reports_have_the_values_of_an_earlier_version():
    assert differences(metric_values(), read("metric")) == []
    assert differences(report_values(), read("report")) == []
