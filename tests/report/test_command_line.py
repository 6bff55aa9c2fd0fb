"""`python -m skuq`: each kind of forecast in csv and Parquet, blocks of rows, and errors on one line."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import skuq
from skuq.distributions import Normal
from skuq.evaluation import uncertainty_report
from skuq.monitoring import MetricAccumulator
from skuq.report import _cli as blocks
from skuq.report import _cli as report
from skuq.report import _cli_tables as tables
from skuq.report._cli import main
from skuq.report._cli_inputs import Kind, bounds, parser

pytest.importorskip("jinja2")
pytest.importorskip("matplotlib")

N = 90
KINDS = {
    "loc": ["--loc", "mu", "--scale", "sigma"],
    "quantiles": ["--quantiles", "q05=.05,q50=.5,q95=.95"],
    "members": ["--members", "m[0-9]*"],
    "bounds": ["--lower", "q05", "--upper", "q95"],
    "classes": ["--proba", "p_cat=cat,p_none=None,p_1=1"],
}
FAST = ["--resamples", "0", "--draws", "0", "--created", "2024-01-31", "--quiet"]


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    loc, scale = rng.normal(size=N), rng.uniform(0.5, 2, size=N)
    table = pd.DataFrame({"y": loc + 1.5 * scale * rng.normal(size=N), "mu": loc, "sigma": scale})
    table["q05"], table["q50"], table["q95"] = loc - 1.6449 * scale, loc, loc + 1.6449 * scale
    for i in range(5):
        table[f"m{i}"] = loc + scale * rng.normal(size=N)
    proba = rng.dirichlet(np.ones(3), size=N).round(3)  # rounded, so that sums differ slightly from 1
    table[["p_cat", "p_none", "p_1"]] = proba
    table["animal"] = np.array(["cat", "None", "1"])[proba.argmax(axis=1)]
    table["w"] = np.arange(N) % 3 + 1
    table["region"] = np.where(np.arange(N) % 2, "NA", "north")
    table["day"] = pd.date_range("2024-01-01", periods=N).strftime("%d %b %Y")
    return table


@pytest.fixture(scope="module")
def csv(frame, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("csv") / "forecasts.csv"
    frame.to_csv(path, index=False)
    return path


@pytest.fixture(autouse=True)
def _no_figures(monkeypatch) -> None:
    """Leave out the figures, which take most of the time."""
    for name in ("figures_of", "figures_of_accumulators", "figures_of_parts"):
        monkeypatch.setattr(f"skuq.report._html_report.{name}", lambda *args, **kwargs: [])


def arguments(path, kind: str, output: Path, *more: str) -> list[str]:
    target = "animal" if kind == "classes" else "y"
    return ["report", str(path), "--y", target, *KINDS[kind], "-o", str(output), *FAST, *more]


def metrics(output: Path, model: str = "forecasts") -> dict[str, float]:
    values = json.loads(output.with_suffix(".json").read_text("utf-8"))
    return {each["metric"]: each["value"] for each in values["models"][model]["metrics"]}


def failure(capsys, argv: list[str], code: int = 2) -> str:
    """Return the only line that a failing command writes to stderr."""
    assert main(argv) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("skuq: error: ")
    assert err.count("\n") == 1
    return err.strip()


EXACT = {"crps", "picp", "mpiw", "interval_score", "ece", "class_log_loss", "class_brier", "set_coverage"}


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_forecast_in_csv_in_parquet_and_in_blocks_of_rows(kind, csv, frame, tmp_path):
    more = ["--weight", "w", "--groups", "region", "--time", "day"]
    assert main(arguments(csv, kind, tmp_path / "a.html", *more)) == 0
    assert main(arguments(csv, kind, tmp_path / "b.html", *more, "--block-rows", "40")) == 0
    whole, parts = metrics(tmp_path / "a.html"), metrics(tmp_path / "b.html")
    exact = EXACT & set(parts)
    assert len(exact) >= 3
    assert {name: whole[name] for name in exact} == pytest.approx({name: parts[name] for name in exact})
    both = [json.loads((tmp_path / f"{name}.json").read_text("utf-8")) for name in "ab"]
    tables = [each["models"]["forecasts"]["parts"] for each in both]
    assert list(tables[0]) == ["region", "day"]
    for column in ("region", "day"):
        for one, other in zip(*(table[column] for table in tables), strict=True):
            assert one == pytest.approx(other)
    if kind == "loc":
        rows, weight = Normal(frame["mu"], frame["sigma"]), frame["w"]
        own = uncertainty_report(frame["y"], rows, sample_weight=weight, n_resamples=0, n_draws=0)
        assert whole["crps"] == pytest.approx(own.loc["crps", "value"])
    pytest.importorskip("pyarrow")
    frame.to_parquet(tmp_path / "forecasts.parquet")
    assert main(arguments(tmp_path / "forecasts.parquet", kind, tmp_path / "c.html", *more)) == 0
    assert whole == pytest.approx(metrics(tmp_path / "c.html"), nan_ok=True)


def test_the_command_prints_the_findings_and_gives_equal_bytes(csv, tmp_path, capsys):
    argv = arguments(csv, "loc", tmp_path / "page.html", "--groups", "region", "--progress")
    argv.remove("--quiet")
    pages = []
    for _ in range(2):
        assert main(argv) == 0
        pages.append([(tmp_path / name).read_bytes() for name in ("page.html", "page.json")])
    assert pages[0] == pages[1]
    out, err = capsys.readouterr()
    words = (
        r"forecasts: The intervals are too narrow: the 90 % intervals contain \d+ % of the observed values\."
    )
    assert re.search(words, out)
    assert "  wrong: The intervals are too narrow" in out
    assert "target" not in out
    assert "100 %" in err
    values = json.loads(pages[0][1])
    assert values["trace"]["Command"].startswith("python -m skuq report ")
    assert "SHA-256" in values["trace"]["File of forecasts"]
    assert values["facts"]["Columns of the forecasts"] == "mu, sigma"


def test_several_files_are_side_by_side(csv, frame, tmp_path, capsys, monkeypatch):
    frame.assign(sigma=3 * frame["sigma"]).to_csv(tmp_path / "wide.csv.gz", index=False)
    argv = arguments(csv, "loc", tmp_path / "page.html")
    argv.insert(2, str(tmp_path / "wide.csv.gz"))
    for more in ([], ["--block-rows", "40"]):
        assert main([*argv, *more]) == 0
        assert "Models side by side" in (tmp_path / "page.html").read_text("utf-8")
        assert metrics(tmp_path / "page.html", "wide")["mpiw"] > metrics(tmp_path / "page.html")["mpiw"]
        frame.assign(y=frame["y"].where(frame.index != 76, 0.0)).to_csv(tmp_path / "other.csv", index=False)
        changed = [str(tmp_path / "other.csv") if "wide" in each else each for each in argv]
        line = failure(capsys, [*changed, *more])
        assert "column 'y' must have the values of" in line
        assert "at row 77" in line
    frame.iloc[:-1].to_csv(tmp_path / "other.csv", index=False)
    assert "row 90 is in only one file" in failure(capsys, changed)
    line = failure(capsys, [*argv, "--block-rows", "40", "--groups", "region"])
    assert "need all rows in memory for several files" in line


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".parquet"])
def test_large_files_are_read_in_blocks(suffix, frame, tmp_path, monkeypatch):
    file, page = tmp_path / f"forecasts{suffix}", tmp_path / "page.html"
    frame.to_parquet(file) if suffix == ".parquet" else frame.to_csv(file, index=False)
    argv = arguments(file, "loc", page)
    # The files of one model for each group need all rows in memory.
    again = [argv[0], str(file), *argv[1:], "--name", "a", "--name", "b", "--groups", "region"]

    def in_blocks(argv: list[str]) -> bool:
        assert main(argv) == 0
        facts = json.loads((tmp_path / "page.json").read_text("utf-8"))["facts"]
        return facts.get("Computation", "").startswith("sums over blocks of rows")

    assert not in_blocks(argv)
    monkeypatch.setattr(tables, "BYTES_IN_MEMORY", 2 * file.stat().st_size)
    monkeypatch.setattr(tables, "ROWS_IN_MEMORY", N)
    assert in_blocks(argv) == (suffix == ".csv.gz")
    monkeypatch.setattr(tables, "BYTES_IN_MEMORY", 1000)
    monkeypatch.setattr(tables, "ROWS_IN_MEMORY", N - 1)
    assert in_blocks(argv)
    assert not in_blocks(again)


def changed(frame: pd.DataFrame, **cells: tuple[int, object]) -> pd.DataFrame:
    """Return a table of objects in which single cells are changed."""
    table = frame.astype(object)
    for column, (row, value) in cells.items():
        table.loc[row, column] = value
    return table


BAD_ROWS = [
    ("loc", {"sigma": (40, "many")}, "column 'sigma' must hold numbers, got 'many' at row 41."),
    ("loc", {"sigma": (40, "1,5")}, "Write decimals with a point, or pass --decimal."),
    ("loc", {"mu": (41, None)}, "column 'mu' must hold finite numbers, got an empty cell at row 42."),
    ("loc", {"y": (42, "inf")}, "column 'y' must hold finite numbers, got inf at row 43."),
    ("loc", {"sigma": (43, 0.0)}, "column 'sigma' must be positive, got 0.0 at row 44."),
    ("quantiles", {"q50": (44, -99.0)}, "column 'q50' must be at least column 'q05', because quantiles must"),
    ("members", {"m3": (45, "x")}, "column 'm3' must hold numbers, got 'x' at row 46."),
    ("bounds", {"q95": (46, -99.0)}, "column 'q95' must be at least column 'q05', got -99.0 at row 47."),
    ("classes", {"p_1": (47, 1.5)}, "column 'p_1' must hold probabilities from 0 to 1, got 1.5 at row 48."),
    ("classes", {"p_1": (48, 0.99)}, "must sum to 1 in each row"),
    (
        "classes",
        {"animal": (49, "dgo")},
        "column 'animal' must hold one of the classes cat, None, 1, got 'dgo'",
    ),
    ("loc", {"w": (50, -1)}, "column 'w' must not be negative, got -1 at row 51."),
    ("loc", {"region": (51, "")}, "column 'region' must not have empty cells, got '' at row 52."),
    ("loc", {"day": (52, "soon")}, "column 'day' must hold dates or numbers, got 'soon' at row 53."),
]


COLUMNS = ["--weight", "w", "--groups", "region", "--time", "day"]
IN_BLOCKS = pytest.mark.parametrize("blocks", [[], ["--block-rows", "40"]], ids=["at once", "in blocks"])


@IN_BLOCKS
def test_bad_rows_are_named(blocks, frame, tmp_path, capsys, subtests):
    for kind, cells, message in BAD_ROWS:
        changed(frame, **cells).to_csv(tmp_path / "bad.csv", index=False)
        with subtests.test(msg=message):
            argv = arguments(tmp_path / "bad.csv", kind, tmp_path / "page.html", *COLUMNS, *blocks)
            line = failure(capsys, argv)
            assert message in line
            assert "bad.csv" in line
    assert not list(tmp_path.glob("*page*"))


@IN_BLOCKS
def test_quantiles_that_cross_can_be_sorted(blocks, frame, tmp_path):
    changed(frame, q50=(3, -99.0)).to_csv(tmp_path / "bad.csv", index=False)
    argv = arguments(tmp_path / "bad.csv", "quantiles", tmp_path / "page.html", *COLUMNS, *blocks)
    assert main([*argv, "--sort-quantiles"]) == 0


def write_bad_files(folder: Path, text: str) -> dict[str, str]:
    """Write files that cannot be read, and return the expected message of each."""
    packed = gzip.compress(text.encode())
    contents: dict[str, tuple[bytes, str]] = {
        "empty.csv": (b"", "the file is empty"),
        "header.csv": (text.partition("\n")[0].encode(), "the file has no rows below its header"),
        "half.csv.gz": (packed[: len(packed) // 2], "cannot be read and may be incomplete"),
        "noise.csv": (b"\xff\xfe\x00\x01", "the file is not valid UTF-8 text (byte 0)"),
        "ragged.csv": ((text + "1,2," * 40 + "\n").encode(), "Expected 18 fields in line 92"),
        "index.csv": (re.sub(r"\n(?=.)", "\n7,", text).encode(), "the rows have more fields than the header"),
        "half.parquet": (b"PAR1" + bytes(50), "cannot be read and may be incomplete"),
        "doubled.csv": (text.replace("q05,", "sigma,", 1).encode(), "column 'sigma' occurs 2 times"),
        "missing.csv": (
            text.replace("sigma,", "scale,", 1).encode(),
            "column 'sigma' is missing; the columns are y",
        ),
        "semicolon.csv": (text.replace(",", ";").encode(), "pass it as --sep"),
    }
    for name, (content, _) in contents.items():
        (folder / name).write_bytes(content)
    return {name: message for name, (_, message) in contents.items()} | {"absent.csv": "does not exist"}


def test_files_that_cannot_be_read(csv, tmp_path, capsys):
    pytest.importorskip("pyarrow")
    for name, message in write_bad_files(tmp_path, csv.read_text("utf-8")).items():
        for more in ([], ["--block-rows", "40"]):
            argv = arguments(tmp_path / name, "loc", tmp_path / "page.html", *more)
            line = failure(capsys, argv)
            assert message in line, name
            assert name in line
    assert not (tmp_path / "page.html").exists()


BAD_OPTIONS = [
    (["--members", "m*"], "exactly one kind of forecast is needed"),
    (["--coverage", "90"], "--coverage must lie between 0 and 1, got 90. Did you mean 0.9?"),
    (["--block-rows", "0"], "--block-rows must be at least 1, got 0"),
    (["--seed", "-1"], "--seed must be a number from 0"),
    (["--resamples", "-1"], "--resamples must be at least 0, got -1"),
    (["--name", "a", "--name", "b"], "--name must be given once per file, got 2 names for 1 files"),
    (["--sep", ",,"], "--sep and --decimal must each be one character"),
    (["--progress"], "--quiet must not be given together with --progress"),
    (["--no-such"], "unrecognized arguments: --no-such; see `python -m skuq --help`"),
    (["-o", "page.json"], "--output must not have the suffix .json"),
    (["-o", "nowhere/page.html"], "is in a folder that does not exist"),
    (["-o", "."], "the page cannot be written, because this path is a folder"),
    (["--groups", "land"], "column 'land' is missing"),
    (["--weight", "sigm"], "Did you mean 'sigma'?"),
    (["--groups", "mu"], "column 'mu' of --groups must hold names that many rows share, got 90 different"),
]
BAD_FORECASTS = [
    (["--loc", "mu"], "--loc and --scale must be given together"),
    (["--quantiles", "q05"], "--quantiles must hold pairs such as 'q05=.05,q95=.95', got 'q05'"),
    (["--quantiles", "q05=5,q95=95"], "--quantiles must hold levels between 0 and 1, got '5'"),
    (["--quantiles", "q05=five,q95=.95"], "--quantiles must hold levels between 0 and 1, got 'five'"),
    (["--quantiles", "q05=.05,q95=.05"], "at least two different levels"),
    (["--members", "x*"], "column 'x*' is missing"),
    (["--proba", "p_cat=cat"], "--proba must hold at least two different classes"),
]


@pytest.mark.parametrize("command", [[], ["report"], ["show-versions"]])
def test_the_help_of_each_command_fits_on_one_screen(command, capsys):
    with pytest.raises(SystemExit, match="0"):
        parser().parse_args([*command, "--help"])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 41
    assert max(map(len, lines)) <= 80


def test_bad_options_and_descriptions_of_forecasts(csv, tmp_path, capsys, subtests):
    of_normals = arguments(csv, "loc", tmp_path / "page.html")
    bare = ["report", str(csv), "--y", "y", "-o", str(tmp_path / "page.html")]
    for argv, options, message in (
        *((of_normals, *case) for case in BAD_OPTIONS),
        *((bare, *case) for case in BAD_FORECASTS),
    ):
        with subtests.test(msg=message):
            assert message in failure(capsys, [*argv, *options])


def test_the_page_cannot_be_written(csv, tmp_path, capsys, monkeypatch):
    line = failure(capsys, arguments(csv, "loc", csv))
    assert "the page would replace the input" in line
    with monkeypatch.context() as patch:
        patch.setattr("skuq.report._cli_inputs.os.access", lambda path, mode: False)
        assert "no permission" in failure(capsys, arguments(csv, "loc", tmp_path / "page.html"))

    def full(*args):
        raise OSError("no space left")

    monkeypatch.setattr(Path, "replace", full)
    assert "no space left" in failure(capsys, arguments(csv, "loc", tmp_path / "page.html"))
    assert list(tmp_path.iterdir()) == []


def test_an_interruption_has_one_line(csv, tmp_path, capsys, monkeypatch):
    update = MetricAccumulator.update
    done = []

    def interrupted(self, *args):
        done.append(1)
        if len(done) > 2:
            raise KeyboardInterrupt
        return update(self, *args)

    def at_once(*args):
        raise KeyboardInterrupt

    argv = arguments(csv, "loc", tmp_path / "page.html", "--block-rows", "20")
    monkeypatch.setattr(MetricAccumulator, "update", interrupted)
    assert "interrupted after row 40; no page was written." in failure(capsys, argv)
    monkeypatch.setattr(tables.Table, "read", at_once)
    assert "interrupted; no page was written." in failure(capsys, argv[:-2])
    assert list(tmp_path.iterdir()) == []


def test_parquet_without_pyarrow_names_the_command(frame, tmp_path, capsys, monkeypatch):
    pytest.importorskip("pyarrow")
    frame.to_parquet(tmp_path / "forecasts.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    line = failure(capsys, arguments(tmp_path / "forecasts.parquet", "loc", tmp_path / "page.html"))
    assert 'Parquet needs pyarrow: run `pip install "skuq[parquet]"`.' in line


def test_files_of_one_name_in_two_folders_have_their_paths_as_names(
    csv, frame, tmp_path, capsys, monkeypatch
):
    frame.to_csv(tmp_path / csv.name, index=False)
    argv = arguments(csv, "loc", tmp_path / "page.html", "--no-json")
    argv.insert(2, str(tmp_path / csv.name))
    argv.remove("--quiet")
    assert main(argv) == 0
    out, _ = capsys.readouterr()
    assert f"{csv}: " in out
    assert f"{tmp_path / csv.name}: " in out
    assert out.endswith(f"written: {tmp_path / 'page.html'}\n")
    assert not (tmp_path / "page.json").exists()
    argv[2] = str(csv)
    assert "the models must have different names" in failure(capsys, argv)


def test_warnings_are_printed_and_stand_on_the_page(csv, tmp_path, capsys, monkeypatch):
    def measure(*args):
        warnings.warn("few rows", UserWarning, stacklevel=2)
        return measured(*args)

    measured = report.measure
    monkeypatch.setattr(report, "measure", measure)
    argv = arguments(csv, "loc", tmp_path / "page.html")
    argv.remove("--quiet")
    assert main(argv) == 0
    assert "warning: few rows" in capsys.readouterr().out
    assert json.loads((tmp_path / "page.json").read_text("utf-8"))["facts"]["Warnings"] == "few rows"


@pytest.mark.parametrize("more", [[], ["--block-rows", "40"]])
def test_groups_and_times_may_be_numbers(more, frame, tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    frame.assign(region=np.arange(N) % 2 + 1.0, day=7).to_parquet(tmp_path / "a.parquet")
    keys = ["--groups", "region", "--time", "day"]
    assert main(arguments(tmp_path / "a.parquet", "loc", tmp_path / "page.html", *keys, *more)) == 0
    ((_, model),) = json.loads((tmp_path / "page.json").read_text("utf-8"))["models"].items()
    parts = {column: [each["part"] for each in table] for column, table in model["parts"].items()}
    assert parts == {"region": ["1", "2"], "day": [7]}


def test_an_argument_check_has_exit_code_2_and_an_error_of_skuq_1(csv, tmp_path, capsys, monkeypatch):
    argv = arguments(csv, "loc", tmp_path / "page.html", "--block-rows", "20")

    def refused(*args, **kwargs):
        raise ValueError("`y_true` must be finite, got inf at row 3.")

    def broken(*args, **kwargs):
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(blocks, "accumulator_of", refused)
    assert failure(capsys, argv) == "skuq: error: `y_true` must be finite, got inf at row 3."
    monkeypatch.setattr(blocks, "accumulator_of", broken)
    line = failure(capsys, argv, code=1)
    assert "internal error: ZeroDivisionError: division by zero (pass --traceback to see where)" in line
    assert main([*argv, "--traceback"]) == 1
    assert "in measure_blocks" in capsys.readouterr().err


def test_relative_weights_are_refused(frame, tmp_path, capsys):
    argv = arguments(tmp_path / "bad.csv", "loc", tmp_path / "page.html", "--weight", "w")
    for factor in (0.0, 0.1):
        frame.assign(w=factor * frame["w"]).to_csv(tmp_path / "bad.csv", index=False)
        for more in ([], ["--block-rows", "40"]):
            line = failure(capsys, [*argv, *more])
            assert "column 'w' counts repetitions, so its sum must be at least" in line


def test_many_groups_become_one(frame, monkeypatch):
    monkeypatch.setattr(blocks, "MOST_GROUPS", 3)
    parts = blocks.Parts(Kind(("low", "high"), bounds, of_bounds=True), 0.9)
    y = frame["y"].to_numpy()
    forecast = np.column_stack([y - 1, y + 1])
    parts.update(pd.Series(np.arange(N) % 6).astype(str), y, forecast, None)
    assert list(parts.sorted()) == ["0", "1", "2", blocks.OTHERS]
    assert parts.sorted()[blocks.OTHERS].n_rows == N // 2


def test_versions(capsys):
    assert main(["show-versions"]) == 0
    printed = capsys.readouterr().out
    skuq.show_versions()
    assert capsys.readouterr().out == printed
    assert f"skuq: {skuq.__version__}\n" in printed
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])
    assert capsys.readouterr().out == f"skuq {skuq.__version__}\n"


@pytest.mark.laws
def test_the_module_runs():
    result = subprocess.run(
        [sys.executable, "-m", "skuq", "report", "--help"], capture_output=True, text=True, check=True
    )
    assert result.stdout.startswith("usage: python -m skuq report")
    assert "--quantiles" in result.stdout
