from importlib.util import find_spec

if find_spec("matplotlib") is None:  # an extra; nothing here can run without it
    collect_ignore_glob = ["test_*.py"]
