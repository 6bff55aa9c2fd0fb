"""The plugin that fails slow tests of the default tier."""

from tests import processor_time


def test_a_slow_test_is_repeated_twice_and_fails_if_it_stays_slow(pytester, monkeypatch):
    monkeypatch.setattr(processor_time, "LIMIT", 0.03)
    monkeypatch.setattr(processor_time, "_slowness", lambda: 1.0)
    pytester.makepyfile(
        """
        import time
        from collections import Counter

        runs = Counter()

        def run(name, seconds):
            runs[name] += 1
            end = time.process_time() + seconds
            while time.process_time() < end:
                pass

        def test_slow():
            run("slow", 0.05)

        def test_slow_at_first():
            run("slow at first", 0.0 if runs["slow at first"] == 2 else 0.05)

        def test_failing():
            run("failing", 0.05)
            assert False

        def test_runs():
            assert runs == {"slow": 3, "slow at first": 3, "failing": 1}
        """
    )
    result = pytester.runpytest("-p", "tests.processor_time", "-m", "not laws")
    result.assert_outcomes(passed=3, failed=1, errors=1)
    result.stdout.fnmatch_lines(["0.* s of processor time; the limit is 0.03 s."])
