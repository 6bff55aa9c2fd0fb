"""The script that repeats table A3 and figure 5 of Kompa et al. (2021)."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from scipy import ndimage
from sklearn.datasets import load_digits
from sklearn.frozen import FrozenEstimator

from benchmarks.tables import read
from skuq.conformal import prediction_set
from skuq.evaluation import shift_curve

for package in ("torch", "skorch"):
    pytest.importorskip(package)
pytest.importorskip("sklearn", minversion="1.8", reason="temperature scaling needs scikit-learn 1.8")

pytestmark = pytest.mark.docs

SCRIPT = "kompa_2021_classification"
SHIFTS = ["rotation", "translation"]


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    """Return a folder of the same form with scikit-learn's digits, thrice as large: 900 rows train."""
    folder = tmp_path_factory.mktemp("data")
    images, labels = load_digits(return_X_y=True)
    large = np.kron(images.reshape(-1, 8, 8), np.ones((3, 3))) * (255 / 16)
    large = np.pad(large, ((0, 0), (2, 2), (2, 2))).astype(np.uint8)
    (folder / "other").mkdir()
    for name, rows in (("train60k", slice(0, 1200)), ("test10k", slice(1200, None))):
        np.savez(folder / "other" / f"mnist_{name}.npz", images=large[rows], labels=labels[rows])
    return folder


def frame_of(study, out):
    """Return the results that the script wrote."""
    return study.as_frame([json.loads(line) for line in out.read_text().splitlines()])


def means(study, frame, column):
    """Return the mean of a score over the severities, a row for each method and a column for each shift."""
    return study.mean_over(frame, column)["mean"].unstack("shift")


# ----------------------------------------------------------------------------------- the shifts


def test_images_are_rotated_one_by_one_on_a_growing_canvas_and_cropped(study):
    images = np.random.default_rng(0).random((3, 28, 28))
    for degrees in study.DEGREES:
        turned = study.rotate(images.reshape(3, -1), degrees)
        for image, row in zip(images, turned, strict=True):
            canvas = ndimage.rotate(image, degrees)
            top, left = canvas.shape[0] // 2 - 14, canvas.shape[1] // 2 - 14
            np.testing.assert_array_equal(row.reshape(28, 28), canvas[top : top + 28, left : left + 28])

    image = np.random.default_rng(1).random((28, 28))
    for degrees, turns in ((90, 1), (180, 2)):
        turned = study.rotate(image.reshape(1, -1), degrees).reshape(28, 28)
        np.testing.assert_allclose(turned, np.rot90(image, turns), atol=1e-12)
    image = np.zeros((1, 28, 28))
    image[:, 8:20, 8:20] = 1
    turned = study.rotate(image.reshape(1, -1), 30)
    assert turned.min() < -0.05  # pixels are not clipped
    assert turned.max() > 1.05


def test_rolled_images_move_to_the_right_and_return_on_the_left(study):
    image = np.zeros((1, 28, 28))
    image[0, 5, [10, 27]] = 1
    rolled = study.roll(image.reshape(1, -1), 2).reshape(28, 28)
    assert [tuple(each) for each in np.argwhere(rolled)] == [(5, 1), (5, 12)]
    np.testing.assert_array_equal(study.roll(image.reshape(1, -1), 28), image.reshape(1, -1))


def test_shifts_are_those_of_the_paper(study):
    names = pd.Series(list(study.SPLITS)).str.split(expand=True)
    assert names[0].value_counts().to_dict() == {"none": 1, "rotation": 12, "translation": 13}
    published = study.PAPER[["shift", "severity"]].drop_duplicates()
    assert set(study.SPLITS) == set(published["shift"] + " " + published["severity"].astype(str))


# --------------------------------------------------------------------------- what the paper reports


def test_results_of_the_paper_are_those_that_its_authors_published(study, shared_data):
    published = shared_data("other/paper002_mnist_reference").query("eps == 0.05")
    names = {"temp_scaling": "temperature", "ll_dropout": "LL dropout", "svi": "SVI", "ll_svi": "LL SVI"}
    shifts = {"test": "none", "rot": "rotation", "roll": "translation"}
    published = published.assign(
        method=published["method"].replace(names), shift=published["split"].str.split("_").str[0].map(shifts)
    ).dropna(subset=["shift"])
    key = ["method", "shift", "ordering", "coverage", "width"]
    theirs = published.fillna({"ordering": 0})[key].sort_values(key).to_numpy()
    here = study.PAPER.rename(columns={"severity": "ordering", "size": "width"})
    assert (here[key].sort_values(key).to_numpy() == theirs).all()


def test_their_means_are_table_a3_but_for_two_misprints(study):
    printed = {
        "dropout": (0.9987, 1.06, 0.5519, 2.3279, 0.5333, 2.3527),
        "ensemble": (0.99984, 1.0424, 0.5157, 2.0892, 0.5424, 2.3276),
        "LL dropout": (0.9985, 1.0561, 0.552, 2.3162, 0.5388, 2.3658),
        "LL SVI": (0.9984, 1.0637, 0.5746, 2.6324, 0.535, 2.3294),
        "SVI": (0.99997, 1.5492, 0.7148, 4.8549, 0.754, 5.6803),
        "temperature": (0.9986, 1.0642, 0.5243, 2.2683, 0.5375, 2.347),
        "vanilla": (0.9972, 1.032, 0.4715, 1.7492, 0.4798, 1.801),
    }
    shifts = ["none", *SHIFTS]
    coverage, size = means(study, study.PAPER, "coverage"), means(study, study.PAPER, "size")
    published = {
        method: [value for shift in shifts for value in (coverage[shift][method], size[shift][method])]
        for method in printed
    }
    gap = np.abs(pd.DataFrame(published).T - pd.DataFrame(printed).T)
    wrong = gap > 1e-4
    assert {(method, column) for method, column in zip(*np.nonzero(wrong), strict=True)} == {(1, 0), (4, 0)}
    assert coverage["none"]["ensemble"] == pytest.approx(0.9984)
    assert coverage["none"]["SVI"] == pytest.approx(0.99968)


def test_their_standard_errors_mostly_measure_the_spread_over_severities(study):
    of_runs = study.mean_over(study.PAPER, "coverage")["std"] / np.sqrt(5)
    groups = study.PAPER.groupby(["method", "shift"])["coverage"]
    ratio = (groups.std() / np.sqrt(groups.size()) / of_runs).drop("none", level="shift")
    assert (round(ratio.min()), round(ratio.max())) == (4, 35)


def test_correlation_of_size_and_roll_is_that_of_section_4_2(study):
    related = study.correlation(study.PAPER)
    assert related["SVI"] == pytest.approx(0.900, abs=5e-4)
    assert related.drop("SVI").max() == pytest.approx(0.86, abs=5e-3)
    assert related.min() == related["LL SVI"] == pytest.approx(0.60, abs=5e-3)


def test_findings_of_the_paper_hold_in_what_was_published(study):
    coverage, size = means(study, study.PAPER, "coverage"), means(study, study.PAPER, "size")
    assert (coverage["none"] > 0.99).all()
    for shift in SHIFTS:
        assert coverage[shift].idxmin() == "vanilla"
        assert coverage[shift]["SVI"] > coverage[shift].drop("SVI").max() + 0.1
        assert size[shift].idxmax() == "SVI"
    turned = study.by_severity(study.PAPER, "rotation", "coverage")
    assert (turned[15] >= 0.99).all()
    sizes = study.by_severity(study.PAPER, "rotation", "size")[15]
    assert sizes.index[sizes > 1.2].tolist() == ["SVI"]
    assert turned.index[turned[90] > 0.5].tolist() == ["SVI"]
    others = turned.drop("SVI")
    assert (others[150] > others[105] + 0.1).all()
    assert (turned.loc["temperature"] > turned.loc["vanilla"]).all()


# ------------------------------------------------------------------------------- forecasts and scores


def calibrated_forecast(n, seed):
    """Return probabilities and labels drawn from them."""
    rng = np.random.default_rng(seed)
    proba = rng.dirichlet(np.full(10, 0.1), size=n)
    return proba, (proba.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)


def test_a_calibrated_forecast_claims_what_it_covers_and_keeps_its_temperature(study):
    proba, y = calibrated_forecast(4000, 0)
    new, labels = calibrated_forecast(4000, 1)
    plain, tempered = (study.calibrate(method, proba, y) for method in ("ensemble", "temperature"))
    np.testing.assert_array_equal(plain.predict_proba(new), new)
    np.testing.assert_allclose(tempered.predict_proba(new), new, atol=0.05)
    found = study.scores(plain, new, labels)
    assert found["excess"] == pytest.approx(0, abs=3 * np.sqrt(0.03 * 0.97 / 4000))
    assert found["coverage"] > 0.97  # the last class overshoots the level
    assert found["conformal coverage"] == pytest.approx(0.95, abs=0.015)
    assert found["conformal size"] < found["size"]


def test_temperature_makes_an_overconfident_forecast_cover_more_and_orders_classes_alike(study):
    proba, y = calibrated_forecast(4000, 0)
    sharp = proba**3 / (proba**3).sum(axis=1, keepdims=True)
    plain, tempered = (study.calibrate(method, sharp, y) for method in ("ensemble", "temperature"))
    np.testing.assert_allclose(tempered.predict_proba(sharp), proba, atol=0.05)
    before, after = study.scores(plain, sharp, y), study.scores(tempered, sharp, y)
    assert before["coverage"] < after["coverage"] - 0.05
    assert before["accuracy"] == after["accuracy"]


def test_mutual_information_is_0_for_equal_members_and_at_most_the_entropy(study):
    proba, _ = calibrated_forecast(50, 0)
    assert study.mutual_information(np.stack([proba, proba, proba], axis=1)) == pytest.approx(0, abs=1e-12)
    certain = np.eye(10)[np.arange(10)][np.newaxis]  # ten members, each sure of another class
    assert study.mutual_information(certain) == pytest.approx(np.log(10))


# ---------------------------------------------------------------------------------- the networks


def test_networks_differ_in_what_the_methods_differ_in(study):
    setting = study.Setting(members=7, draws=11)
    for system in study.SYSTEMS:
        (model,) = study.networks(system, setting, 3)
        options = model.get_params()
        assert options["standardize"] is False
        assert (options["hidden_layer_sizes"], options["batch_size"]) == ((200, 200), 128)
        assert options["random_state"] == 3
        if system == "ensemble":
            assert (options["n_estimators"], options["bootstrap"]) == (7, False)
        else:
            assert (options["last_layer"], options["n_draws"]) == (system.startswith("LL"), 11)


def test_members_of_a_convolutional_ensemble_have_seeds_that_no_other_run_has(study):
    setting = study.Setting("LeNet", members=3)
    seeds = [model.random_state for run in range(4) for model in study.networks("ensemble", setting, run)]
    assert seeds == list(range(12))


def test_a_network_gives_the_same_numbers_through_shift_curve_and_predict_entropy(study, digits):
    X, y = study.images(np.load(digits / "other" / "mnist_train60k.npz"), slice(0, 300))
    setting = study.Setting(epochs=3, batch_size=32, members=2)
    (model,) = (each.fit(X, y) for each in study.networks("ensemble", setting, 0))
    rows = np.arange(300)
    options = {"severities": [15], "scoring": ["set_coverage", "set_size"], "cv": [(rows, rows)]}
    curve = shift_curve(FrozenEstimator(model), X, y, shift=study.rotate, **options)
    members = model.predict_members(study.rotate(X, 15))
    sets = prediction_set(members.mean(axis=1), 0.9)
    assert curve["set_size"][0, 0] == pytest.approx(sets.sum(axis=1).mean())
    assert curve["set_coverage"][0, 0] == pytest.approx(sets[rows, y].mean())
    entropies = model.predict_entropy(study.rotate(X, 15))
    assert study.mutual_information(members) == pytest.approx(entropies.epistemic.mean(), rel=1e-6)


def test_lenet_is_the_network_of_the_paper(study):
    network = study.lenet(784, 10)
    assert sum(weight.numel() for weight in network.parameters()) == 1_199_882


# ------------------------------------------------------------------------------------ the study, small


@pytest.fixture(scope="module")
def small(study, digits, tmp_path_factory):
    """Return the file of results of one run of all systems on scikit-learn's digits."""
    out = tmp_path_factory.mktemp("out") / "out.jsonl"
    setting = study.Setting("perceptron", 900, 300, 500, epochs=15, batch_size=32, members=3, draws=10)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(study, "N_TRAIN", 900)
        patch.setattr(study, "SMALL", setting)
        patch.setattr(study.measuring, "data_folder", lambda: digits)
        study.main(["--out", str(out)])
        yield out


def test_all_methods_are_scored_on_all_shifts(study, small):
    frame = frame_of(study, small)
    assert frame.groupby("method").size().to_dict() == dict.fromkeys(study.METHODS, 26)
    assert frame.drop(columns="information").notna().to_numpy().all()
    assert set(frame.dropna()["method"]) == set(study.SYSTEMS)
    assert frame["coverage"].between(frame["accuracy"], 1).all()
    assert frame["size"].between(1, 10).all()


def test_small_networks_rank_as_those_of_the_paper(study, small):
    frame = frame_of(study, small)
    coverage = means(study, frame, "coverage")
    assert (coverage["none"] > 0.9).all()
    for shift in SHIFTS:
        assert (coverage[shift][["temperature", "ensemble", "dropout"]] > coverage[shift]["vanilla"]).all()
    information = study.by_severity(frame, "translation", "information")
    assert (information[6] > 1.5 * information[0]).all()


def test_finished_runs_are_skipped_and_give_tables_and_a_figure(study, small, tmp_path, monkeypatch, capsys):
    before = small.read_text()
    monkeypatch.setattr(study, "measure", None)
    picture = tmp_path / "figure.svg"
    pytest.importorskip("matplotlib")
    study.main(["--out", str(small), "--plot", str(picture)])
    text = capsys.readouterr().out
    assert text.count("kompa_2021_classification-") == 7
    assert "vanilla, paper" in text
    assert "1.000, 1.55" in text  # SVI in the paper, without its misprint
    assert "translation (pixels)" in picture.read_text()
    assert small.read_text() == before


# -------------------------------------------------------------------------------- the sentences of the page


def numbers(end, part=0, columns=None):
    """Return one number of each cell of a table of results, by method."""
    frame = read(f"kompa_2021_classification-{end}").set_index("method")
    cells = frame[columns or list(frame)].map(lambda cell: cell.split(", ")[part].split(" ± ")[0])
    return cells.replace("", "nan").astype(float)


def test_svi_covers_most_and_vanilla_least(study):
    for shift in SHIFTS:
        coverage = numbers("coverage", 0, [shift])[shift]
        assert coverage["SVI"] > coverage.drop("SVI").max() + 0.1
        assert coverage.idxmin() == "vanilla"
    turned = numbers("rotation").loc[list(study.METHODS)]
    assert (turned.loc["SVI", "75":] > 0.5).all()
    assert (turned.drop("SVI").loc[:, "75":] < 0.5).all(axis=None)
    assert (turned.drop("SVI")["180"] > turned.drop("SVI")["90"] + 0.1).all()


def test_lenet_reproduces_rotations_and_covers_more_than_perceptrons():
    lenet, perceptrons = (
        numbers(name, 0, [*SHIFTS, *(f"{shift}, paper" for shift in SHIFTS)])
        for name in ("LeNet", "coverage")
    )
    gap = (lenet["rotation"] - lenet["rotation, paper"]).dropna()
    assert gap.abs().max() < 0.03
    less = (lenet["translation, paper"] - lenet["translation"]).dropna()
    assert less.median() > 0
    assert less.max() < 0.09
    more = lenet[SHIFTS] - perceptrons.loc[lenet.index, SHIFTS]
    assert more.min(axis=None) > 0
    assert more["translation"].mean() > more["rotation"].mean()


def test_svi_is_diffuse():
    size = numbers("coverage", 1, ["test"])["test"]
    assert size.idxmax() == "SVI"
    accuracy, brier = (numbers("scores", part) for part in (0, 2))
    assert brier["test"].idxmax() == brier["rotation 90"].idxmin() == "SVI"
    assert accuracy["rotation 90"].between(0.1, 0.16).all()
    assert accuracy["test"].min() > 0.95


def test_sizes_grow_with_the_roll_for_svi_and_for_lenet():
    ours, lenet = (numbers(name, 0, ["r", "r, paper"]) for name in ("coverage", "LeNet"))
    assert ours["r"].idxmax() == "SVI"
    assert ours.loc["SVI", "r"] > 0.7
    assert ours["r"].drop("SVI").max() < 0.5
    assert min(lenet["r"].min(), lenet["r, paper"].min()) > 0.5
    information = numbers("information")
    assert (information["4"] > 2 * information["0"]).all()


def test_vanilla_is_overconfident_and_svi_underconfident():
    excess = numbers("excess")
    assert excess.loc["vanilla", "test"] < -0.005
    assert excess.loc["SVI", "test"] > 0.005
    for column in ("rotation 45", "rotation 90", "translation 4"):
        assert (excess[column] < -0.05).all()


def test_temperature_adds_to_an_ensemble_and_last_layers_depend_on_the_others(study):
    coverage, paper = numbers("coverage", 0, SHIFTS), means(study, study.PAPER, "coverage")
    for shift in SHIFTS:
        assert paper.loc[["LL dropout", "LL SVI"], shift].min() > paper.loc["dropout", shift] - 0.01
        column = coverage[shift]
        assert column["ensemble, temperature"] > max(column["ensemble"], column["temperature"])
        assert column["vanilla"] < column["LL dropout"] < column["dropout"]


def test_conformal_sets_lose_more_coverage_under_shift(study):
    conformal, size = numbers("conformal"), numbers("conformal", 1)
    plain = pd.concat(
        [numbers(end).add_prefix(f"{end} ").loc[list(study.METHODS)] for end in SHIFTS],
        axis=1,
    )
    assert conformal["test"].between(0.94, 0.96).all()
    assert (plain["rotation 0"] > 0.98).all()
    for column in conformal.columns.drop("test"):
        assert (conformal[column] < plain[column] - 0.045).all(), column
        assert np.ptp(conformal[column]) < 0.08, column
    assert size["rotation 90"].max() < 0.6
