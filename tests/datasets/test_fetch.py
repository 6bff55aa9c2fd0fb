"""Tables from a mirror, a cache and a server on localhost that fails in every way."""

import gzip
import http.server
import io
import multiprocessing
import os
import threading
import time
import warnings
from pathlib import Path
from urllib.error import URLError

import numpy as np
import pandas as pd
import pytest
from sklearn.utils import Bunch

from skuq.datasets import _download, fetch_gal, fetch_uci
from skuq.datasets._sets import FOLDER, _all_sets, find_set
from skuq.exceptions import SkuqWarning

NAMES = [(family, name) for family, sets in _all_sets().items() for name in sets]
MIRRORED = [(family, name) for family, name in NAMES if name not in {"superconductivity", "auto_mpg"}]
SMALL = {"abalone", "forest_fires", "servo", "boston", "concrete", "yacht"}
FETCH = {"uci": fetch_uci, "gal": fetch_gal}
TABLE = gzip.decompress((FOLDER / "data/concrete_strength.csv.gz").read_bytes())


# ------------------------------------------------------------------------------------------------ the mirror


@pytest.mark.parametrize(
    ("family", "name"),
    [pytest.param(*one, marks=[] if one[1] in SMALL else pytest.mark.laws) for one in MIRRORED],
)
def test_a_table_equals_the_file_of_the_mirror(family, name, shared_data):
    shared_data(find_set(family, name).file)  # or skip
    path = Path(os.environ["SKUQ_DATA"]) / f"{find_set(family, name).file}.csv.gz"
    file = pd.read_csv(path, keep_default_na=name != "metro_traffic", float_precision="round_trip")
    bunch = FETCH[family](name, download_if_missing=False)
    X, y = FETCH[family](name, download_if_missing=False, return_X_y=True)
    assert list(bunch.frame) == list(file)
    assert bunch.frame.shape == file.shape
    assert X.equals(bunch.data)
    assert y.equals(bunch.target)
    for column, values in bunch.frame.items():
        if pd.api.types.is_numeric_dtype(values):
            np.testing.assert_array_equal(values, file[column].astype(float))
        elif isinstance(values.dtype, pd.CategoricalDtype):
            assert (values.astype(str) == file[column].astype(str)).all()
            assert values.notna().all()
        else:
            hours = pd.to_datetime(file[column], dayfirst="/" in file[column][0]).dt.hour
            assert (values.dt.hour == hours).all()
    assert bunch.verified
    assert set(bunch.units) == set(file)


def test_categories_have_their_order(shared_data):
    shared_data("paper001/forest_fires")
    fires = fetch_uci("forest_fires").data
    assert (fires["month"].cat.ordered, fires["month"].min(), fires["month"].max()) == (True, "jan", "dec")
    codes = fetch_uci("forest_fires", as_frame=False)
    assert codes.data[:, 2].max() == 11
    assert codes.categories["month"][11] == "dec"


def test_splits_are_those_of_the_authors(shared_data):
    shared_data("gal/gal_boston")
    for name, n_splits in {"boston": 20, "protein": 5}.items():
        bunch = fetch_gal(name)
        assert len(bunch.splits) == n_splits
        for train, test in bunch.splits:
            assert len(train) == round(0.9 * len(bunch.target))
            np.testing.assert_array_equal(np.sort([*train, *test]), np.arange(len(bunch.target)))
    rng = np.random.RandomState(1)
    np.testing.assert_array_equal(np.concatenate(bunch.splits[0]), rng.choice(45730, 45730, replace=False))


def test_a_damaged_file_of_the_mirror_is_an_error(tmp_path, monkeypatch):
    path = tmp_path / "paper001" / "concrete_strength.csv.gz"
    path.parent.mkdir()
    monkeypatch.setenv("SKUQ_DATA", str(tmp_path))
    changed = gzip.compress(TABLE.replace(b"79.99", b"79.98"))
    for damaged in (gzip.compress(TABLE)[:2000], changed, b"<html>"):
        path.write_bytes(damaged)
        with pytest.raises(OSError, match=r"is not the table 'concrete_strength': .*unset SKUQ_DATA"):
            fetch_uci("concrete_strength")


def test_the_nearest_name_is_suggested():
    for fetch_set, name, near in (
        (fetch_uci, "airfoil", "airfoil_self_noise"),
        (fetch_uci, "AUTO MPG", "auto_mpg"),
        (fetch_uci, "auto-mpg", "auto_mpg"),
        (fetch_uci, "metro", "metro_traffic"),
        (fetch_uci, "traffic", "metro_traffic"),
        (fetch_uci, "winequality", "wine_quality"),
        (fetch_uci, "super", "superconductivity"),
        (fetch_uci, "power_plant", "combined_cycle_power_plant"),
        (fetch_gal, "bostn", "boston"),
        (fetch_gal, "Boston Housing", "boston"),
        (fetch_gal, "protien", "protein"),
    ):
        words = rf"`name` must be the name of a data set, .*\. Did you mean '{near}'\? Known: "
        with pytest.raises(ValueError, match=words):
            fetch_set(name)
    for family, sets in _all_sets().items():
        for known in sets:
            for name in (known.upper(), known[:-1], known[0] + known[2:], known.replace("_", " ") + "s"):
                if name not in sets:
                    with pytest.raises(ValueError, match=f"Did you mean '{known}'"):
                        FETCH[family](name)
    # a name like none gets all names
    words = r"`name` must be the name of a data set, got [^.]*\. Known: boston, concrete,"
    for name in (3, None, "", ["abalone"], "xyz"):
        with pytest.raises(ValueError, match=words):
            fetch_gal(name)


def test_the_loader_of_a_set_is_named():
    with pytest.raises(ValueError, match=r"got 'boston'\. fetch_gal has 'boston'\. Known: abalone"):
        fetch_uci("boston")
    with pytest.raises(ValueError, match=r"fetch_uci has 'servo'\. Known: boston"):
        fetch_gal("Servo")


def test_wrong_options_are_named():
    for options, error, message in (
        ({"data_home": 3}, TypeError, "`data_home` must be a path or None, got 3"),
        ({"delay": -1}, ValueError, "`delay` must be at least 0, got -1"),
        ({"n_retries": -1}, ValueError, "`n_retries` must be at least 0, got -1"),
        ({"download_if_missing": "no"}, ValueError, "`download_if_missing` must be one of True, False"),
        ({"return_X_y": "yes"}, ValueError, "`return_X_y` must be one of True, False"),
        ({"as_frame": "yes"}, ValueError, "`as_frame` must be one of True, False"),
    ):
        with pytest.raises(error, match=message):
            fetch_uci("abalone", **options)


def test_dates_need_a_frame(shared_data):
    shared_data("other/metro_traffic")
    assert fetch_uci("metro_traffic").data["date_time"].is_monotonic_increasing
    with pytest.raises(ValueError, match=r"`as_frame` must be True for 'metro_traffic'.*date_time"):
        fetch_uci("metro_traffic", as_frame=False)


# ------------------------------------------------------------------------------------------------ the server


class Server(http.server.ThreadingHTTPServer):
    """A UCI repository with one table; ``mode`` is the way in which it fails."""

    mode = "whole"
    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests = []

    def handle_error(self, request, client_address):
        """Print nothing: a client that waited too long has closed the connection."""


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.requests.append(self.path)
        mode = self.server.mode
        if callable(mode):
            mode = mode(len(self.server.requests))
        if mode == "slow":
            time.sleep(1)
        if mode == "gone":
            self.send_error(404)
        elif mode == "redirect" and "elsewhere" not in self.path:
            self.send_response(302)
            self.send_header("Location", "/elsewhere")
            self.end_headers()
        else:
            body = {
                "page": b"<html><body>Sign in</body></html>",
                "values": TABLE.replace(b"79.99", b"97.99"),
                "rows": b"".join(TABLE.splitlines(keepends=True)[:-3]),
                "empty": b"",
            }.get(mode, TABLE)
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[: len(body) // 2] if mode == "cut" else body)

    def log_message(self, *arguments):
        pass


@pytest.fixture
def server(monkeypatch):
    """Return a server that the one set without OpenML and without a bundled file comes from."""
    found = Server()
    thread = threading.Thread(target=found.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    address = f"http://127.0.0.1:{found.server_address[1]}"
    monkeypatch.setattr(_download, "UCI", address)
    monkeypatch.setattr(_download, "GAL", address)
    monkeypatch.setattr(_download, "TIMEOUT", 0.3)
    monkeypatch.delenv("SKUQ_DATA", raising=False)
    hide_bundled(monkeypatch)
    yield found
    found.shutdown()
    found.server_close()
    thread.join()


def hide_bundled(monkeypatch):
    """Let the concrete come from the UCI repository alone."""
    record = {**_all_sets()["uci"]["concrete_strength"], "bundled": "", "openml": 0}
    monkeypatch.setitem(_all_sets()["uci"], "concrete_strength", record)


def fetch(folder, **options):
    return fetch_uci("concrete_strength", data_home=folder, delay=0.0, **options)


def files(folder):
    return [path.name for path in folder.rglob("*") if path.is_file()]


@pytest.mark.parametrize("mode", ["whole", "redirect"])
def test_a_table_is_downloaded_once(mode, server, tmp_path):
    server.mode = mode
    first = fetch(tmp_path)
    n_requests = len(server.requests)
    second = fetch(tmp_path, download_if_missing=False)
    assert first.frame.equals(second.frame)
    assert len(server.requests) == n_requests
    assert files(tmp_path) == ["concrete_strength.csv.gz"]


FAILURES = {
    "cut": ("IncompleteRead", 3),
    "slow": ("timed out", 3),
    "gone": ("404", 1),
    "page": ("it has the columns", 1),
    "values": ("its values differ", 1),
    "rows": ("it has 1027 rows, not 1030", 1),
    "empty": ("No columns to parse", 1),
}


@pytest.mark.parametrize("mode", FAILURES)
def test_a_failure_is_named_and_leaves_no_file(mode, server, tmp_path, monkeypatch):
    server.mode, (reason, n_requests) = mode, FAILURES[mode]
    words = rf"'concrete_strength' could not be downloaded: .*{reason}.*Set SKUQ_DATA"
    with pytest.raises(OSError, match=words):
        fetch(tmp_path, n_retries=2)
    assert len(server.requests) == n_requests
    assert not files(tmp_path)
    if mode == "cut":  # an interrupted transfer is repeated
        server.mode = lambda count: "cut" if count < 6 else "whole"
        assert fetch(tmp_path, n_retries=2).data.shape == (1030, 8)
    if mode == "gone":  # without a server
        monkeypatch.setattr(_download, "UCI", "http://127.0.0.1:9")
        with pytest.raises(OSError, match="could not be downloaded"):
            fetch(tmp_path, n_retries=0)
        with pytest.raises(OSError, match="`download_if_missing` is False"):
            fetch(tmp_path, download_if_missing=False)


def test_a_damaged_cache_is_replaced(server, tmp_path):
    whole = fetch(tmp_path).frame
    (path,) = tmp_path.rglob("*.gz")
    content = path.read_bytes()
    changed = gzip.compress(gzip.decompress(content).replace(b"79.99", b"97.99"))
    for damaged in (content[:2000], changed, b""):
        path.write_bytes(damaged)
        with pytest.raises(OSError, match=r"concrete_strength\.csv\.gz: .*`download_if_missing` is False"):
            fetch(tmp_path, download_if_missing=False)
        assert fetch(tmp_path).frame.equals(whole)
        assert fetch(tmp_path, download_if_missing=False).frame.equals(whole)


def test_a_cache_that_cannot_be_written(server, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("not a folder")
    with pytest.warns(SkuqWarning, match="'concrete_strength' is not cached: .*`data_home`") as caught:
        found = fetch(tmp_path / "file")
    assert found.data.shape == (1030, 8)
    assert caught[0].filename == __file__

    def fail(*arguments):
        raise KeyboardInterrupt

    home = tmp_path / "home"
    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", fail)
        with pytest.raises(KeyboardInterrupt):
            fetch(home)
    assert not files(home)
    whole = fetch(home).frame  # a read-only cache is read
    folders = [home, *(path for path in home.rglob("*") if path.is_dir())]
    for folder in folders:
        folder.chmod(0o555)
    try:
        assert fetch(home, download_if_missing=False).frame.equals(whole)
    finally:
        for folder in folders:
            folder.chmod(0o755)


def fetch_in_process(address, folder, barrier, results):
    with pytest.MonkeyPatch.context() as monkeypatch, warnings.catch_warnings():
        warnings.simplefilter("error")
        monkeypatch.setattr(_download, "UCI", address)
        hide_bundled(monkeypatch)
        barrier.wait()
        results.put(fetch(folder).data.shape)


@pytest.mark.laws
def test_two_processes_at_once(server, tmp_path):
    context = multiprocessing.get_context("spawn")
    barrier, results = context.Barrier(2), context.Queue()
    arguments = (_download.UCI, Path(tmp_path), barrier, results)
    processes = [context.Process(target=fetch_in_process, args=arguments) for _ in range(2)]
    for process in processes:
        process.start()
    assert [results.get(timeout=60) for _ in processes] == [(1030, 8)] * 2
    for process in processes:
        process.join()
        assert process.exitcode == 0
    assert len(server.requests) == 2
    assert files(tmp_path) == ["concrete_strength.csv.gz"]


# -------------------------------------------------------------------------------------------- other sources


@pytest.mark.parametrize("rows", [1030, 1000])
def test_openml_comes_first_and_another_source_if_its_values_differ(rows, server, tmp_path, monkeypatch):
    table = pd.read_csv(io.BytesIO(TABLE)).head(rows).add_prefix("x_")  # other names of the columns
    bunch, calls = Bunch(data=table.iloc[:, :-1], target=table.iloc[:, -1]), []

    def fake(**options):
        calls.append(options["data_id"])
        return bunch

    monkeypatch.setattr(_download, "fetch_openml", fake)
    monkeypatch.setitem(_all_sets()["uci"]["concrete_strength"], "openml", 44959)
    assert fetch(tmp_path).data.shape == (1030, 8)
    assert calls == [44959]
    assert server.requests == ([] if rows == 1030 else ["/165/data.csv"])


@pytest.mark.filterwarnings("ignore:A network error occurred")
def test_openml_is_asked_without_retries_and_delay(monkeypatch, tmp_path):
    """scikit-learn refuses 0 for both."""
    monkeypatch.delenv("SKUQ_DATA", raising=False)

    def fail(request, **options):
        raise URLError("offline")

    monkeypatch.setattr("sklearn.datasets._openml.urlopen", fail)
    monkeypatch.setattr("sklearn.datasets._openml.time.sleep", lambda seconds: None)
    monkeypatch.setattr(_download, "urlopen", fail)
    with pytest.raises(OSError, match="OpenML 44964: <urlopen error offline>"):
        fetch_uci("superconductivity", data_home=tmp_path, n_retries=0, delay=0)


def test_the_table_of_gal_has_the_columns_of_its_index_files(monkeypatch, tmp_path):
    values = [line.split(b",") for line in TABLE.splitlines()[1:]]
    answers = {  # the target first, and a column that is not used
        "data.txt": b"\n".join(b"  ".join([row[-1], *row[:-1], b"7"]) for row in values),
        "index_features.txt": b"\n".join(f"{index}.0".encode() for index in range(1, 9)),
        "index_target.txt": b"0",
    }
    monkeypatch.delenv("SKUQ_DATA", raising=False)
    monkeypatch.setattr(_download, "_get", lambda address, *_: io.BytesIO(answers[Path(address).name]))
    record = {**_all_sets()["gal"]["concrete"], "bundled": "", "openml": 0}
    monkeypatch.setitem(_all_sets()["gal"], "concrete", record)
    assert fetch_gal("concrete", data_home=tmp_path).frame.equals(fetch_uci("concrete_strength").frame)


def test_a_set_without_a_published_table_is_unverified_and_its_names_must_agree(monkeypatch, tmp_path):
    monkeypatch.setitem(_all_sets()["uci"]["superconductivity"], "n_rows", 40)
    monkeypatch.delenv("SKUQ_DATA", raising=False)
    monkeypatch.setattr(_download, "_get", lambda *_: (_ for _ in ()).throw(OSError("offline")))
    data = find_set("uci", "superconductivity")
    frame = pd.DataFrame(np.zeros((40, 82)), columns=[*data.features, data.target])
    bunch = Bunch(data=pd.DataFrame(np.zeros((40, 81))), target=pd.Series(np.zeros(40), name="y"))
    monkeypatch.setattr(_download, "fetch_openml", lambda **_: bunch)
    with pytest.raises(OSError, match=r"OpenML 44964: it has the columns .*offline"):
        fetch_uci("superconductivity", data_home=tmp_path)
    bunch.data, bunch.target = frame[data.features], frame[data.target]
    found = fetch_uci("superconductivity", data_home=tmp_path)
    assert not found.verified
    assert "not checked" in found.DESCR
