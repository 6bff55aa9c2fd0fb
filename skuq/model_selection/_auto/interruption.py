"""Records of interrupted trials. An interrupted trial is recorded as failed and is repeated."""

from __future__ import annotations

import os
import platform
import signal
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

HEARTBEAT_SECONDS = 30.0
"""Seconds between two heartbeats. A heartbeat is a time that a running search stores."""
GRACE_SECONDS = 300.0
"""The process counts as killed if its last heartbeat is older than this number of seconds."""
MAX_INTERRUPTIONS = 3
"""After this number of interruptions, a candidate is not repeated, because the candidate may crash the
process."""
_OWNER, _ALIVE, _ENDED = "owner", "alive", "ended"
"""Names of the user attributes of a stored trial."""


class Terminated(BaseException):
    """Exception that is raised when the process receives SIGTERM."""


def _machine() -> str:
    parts = [platform.node()]
    try:
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
        parts.append(str(Path("/proc/self/ns/pid").readlink()))
    except OSError:  # the file exists only on Linux
        pass
    return " ".join(parts)


def _exists(pid: int) -> bool:
    if sys.platform == "win32":  # signal 0 would end a process on Windows
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # the process exists, but belongs to another user
        return True
    return True


class Owner:
    """Identity of a running search, which is stored with its trials."""

    def __init__(self) -> None:
        self._record = {"search": uuid.uuid4().hex, "machine": _machine(), "pid": os.getpid()}

    def claim(self, handle: Any) -> None:
        handle.set_user_attr(_OWNER, self._record)

    def owns(self, frozen: Any) -> bool:
        return bool(frozen.user_attrs.get(_OWNER) == self._record)

    def has_lost(self, frozen: Any) -> bool:
        """Return whether the process of a trial has ended, or has sent no heartbeat for a long time."""
        owner = frozen.user_attrs.get(_OWNER, {})
        if owner.get("machine") == self._record["machine"] and not _exists(owner["pid"]):
            return True
        last = frozen.user_attrs.get(_ALIVE, frozen.datetime_start.timestamp())
        return bool(time.time() - last > GRACE_SECONDS)

    @contextmanager
    def heartbeat(self, handles: Callable[[], Iterable[Any]]) -> Iterator[None]:
        """Record heartbeats of trials at regular times while the block runs."""
        ended = threading.Event()

        def beat() -> None:
            while not ended.wait(HEARTBEAT_SECONDS):
                for handle in handles():
                    try:
                        handle.set_user_attr(_ALIVE, time.time())
                    except Exception:  # the trial may have ended, or the storage is busy
                        continue

        thread = threading.Thread(target=beat, daemon=True, name="heartbeat of a search")
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


def ended_by(handle: Any, reason: str) -> None:
    """Record the reason for the end of a trial. An interrupted trial has no recorded reason."""
    handle.set_user_attr(_ENDED, reason)


@contextmanager
def fails_on_interruption(optuna: Any, study: Any, owner: Owner) -> Iterator[None]:
    """Record the running trials of a search as failed if an exception or SIGTERM ends the search."""
    with _sigterm_raises():
        try:
            yield
        except BaseException:
            _fail(optuna, study, owner.owns)
            raise


def release_lost(optuna: Any, study: Any, owner: Owner) -> None:
    """Record running trials as failed if their processes have ended."""
    _fail(optuna, study, owner.has_lost)


def _fail(optuna: Any, study: Any, concerns: Callable[[Any], bool]) -> None:
    states = optuna.trial.TrialState
    for frozen in study.get_trials(deepcopy=False, states=(states.RUNNING,)):
        if concerns(frozen):
            try:
                study.tell(frozen.number, state=states.FAIL)
            except (RuntimeError, ValueError):  # another process has recorded the trial
                continue


def interrupted_trials(optuna: Any, study: Any) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the parameters of interrupted trials in two lists.

    The trials of the first list are repeated. The trials of the second list were interrupted too often.
    """
    found: dict[str, dict[str, Any]] = {}
    times: dict[str, int] = {}
    for frozen in study.get_trials(deepcopy=False):
        params = {**frozen.system_attrs.get("fixed_params", {}), **frozen.params}
        key = repr(sorted(params.items()))
        failed = frozen.state == optuna.trial.TrialState.FAIL
        if failed and _OWNER in frozen.user_attrs and _ENDED not in frozen.user_attrs:
            found[key] = params
            times[key] = times.get(key, 0) + 1
        else:
            found.pop(key, None)
    due = [params for key, params in found.items() if times[key] < MAX_INTERRUPTIONS]
    given_up = [params for key, params in found.items() if times[key] >= MAX_INTERRUPTIONS]
    return due, given_up


@contextmanager
def _sigterm_raises() -> Iterator[None]:
    """Raise an exception when SIGTERM is received in the block, and send the signal again after the block."""
    process = os.getpid()

    def terminate(number: int, frame: FrameType | None) -> None:
        if os.getpid() != process:  # a forked child uses the default handler
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        raise Terminated

    in_main = threading.current_thread() is threading.main_thread()
    if not in_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    except Terminated:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
