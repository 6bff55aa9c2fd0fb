"""What searches load once in a process, before the first test."""

import pytest


@pytest.fixture(scope="session", autouse=True)
def _optuna_is_ready():
    """Load what Optuna loads in the first study of a process."""
    try:
        import optuna
    except ImportError:
        return
    optuna.logging.set_verbosity(optuna.logging.get_verbosity())
    optuna.create_study(storage="sqlite://").ask()
