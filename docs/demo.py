"""Run the quick start and save its plots in the folder plots, for `make demo`."""

import runpy
from pathlib import Path

import matplotlib.pyplot as plt

SCRIPT = Path(__file__).parents[1] / "examples" / "plot_01_quickstart.py"
FOLDER = Path("plots")

runpy.run_path(str(SCRIPT), run_name="__main__")
FOLDER.mkdir(exist_ok=True)
for number in plt.get_fignums():
    plt.figure(number).savefig(FOLDER / f"quick-start-{number}.png", dpi=120)
