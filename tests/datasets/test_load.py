"""The sets that ship with skuq."""

import numpy as np
import pandas as pd
import pytest

from skuq import datasets
from skuq.datasets._sets import FOLDER

LOADERS = {
    "abalone": (datasets.load_abalone, (4177, 8)),
    "airfoil_self_noise": (datasets.load_airfoil, (1503, 5)),
    "auto_mpg": (datasets.load_auto_mpg, (392, 5)),
    "concrete_strength": (datasets.load_concrete, (1030, 8)),
}
every_loader = pytest.mark.parametrize("name", LOADERS)


@pytest.fixture(autouse=True)
def _no_mirror(monkeypatch):
    monkeypatch.delenv("SKUQ_DATA", raising=False)


@every_loader
def test_a_loader_returns_arrays_and_a_frame_has_their_values(name):
    load, shape = LOADERS[name]
    X, y = load(return_X_y=True)
    assert X.shape == load().data.shape == shape
    assert X.dtype == y.dtype == np.float64
    assert load().frame is None
    assert not np.isnan(X).any()
    np.testing.assert_array_equal(y, load().target)
    bunch = load(as_frame=True)
    assert list(bunch.frame) == [*bunch.feature_names, *bunch.target_names] == list(bunch.units)
    codes = [x.cat.codes if isinstance(x.dtype, pd.CategoricalDtype) else x for _, x in bunch.data.items()]
    np.testing.assert_array_equal(np.column_stack(codes), X)
    assert bunch.target.equals(bunch.frame[bunch.target_names[0]])


@every_loader
def test_a_bundled_set_is_fetched_offline_and_names_source_and_license(name, tmp_path):
    bunch = LOADERS[name][0]()
    assert bunch.license == "CC BY 4.0"
    assert bunch.source.startswith("https://doi.org/10.24432/")
    assert bunch.source in bunch.DESCR
    assert bunch.license in bunch.DESCR
    assert bunch.verified
    assert bunch.DESCR.splitlines()[1] == "=" * len(bunch.DESCR.splitlines()[0])
    found = datasets.fetch_uci(name, download_if_missing=False, data_home=tmp_path)
    assert found.data.equals(LOADERS[name][0](as_frame=True).data)
    assert not list(tmp_path.iterdir())


def test_data_take_at_most_100_kilobytes():
    assert (
        sum(path.stat().st_size for path in FOLDER.rglob("*") if path.suffix in {".gz", ".toml"}) <= 100_000
    )
