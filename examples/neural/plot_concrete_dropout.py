"""
Learned dropout rates: ConcreteDropoutRegressor
===============================================

:class:`~skuq.neural.ConcreteDropoutRegressor` trains one network. It also learns the dropout rates, and the
noise as a function of X.
"""

import matplotlib.pyplot as plt
import numpy as np

from skuq.datasets import load_auto_mpg
from skuq.neural import ConcreteDropoutRegressor

X, y = load_auto_mpg(return_X_y=True)
X = X[:, [2]] / 1000  # weight in 1000 pounds, miles per gallon
model = ConcreteDropoutRegressor(max_epochs=100, random_state=0).fit(X, y)

grid = np.linspace(1.6, 5.2, 100)
dist = model.predict_dist(grid[:, np.newaxis])
parts = {"aleatoric": dist.aleatoric().std(), "epistemic": dist.epistemic().std()}
_, ax = plt.subplots(figsize=(5.6, 3.8), layout="constrained")
for name, std in parts.items():
    print(
        f"{name}: {std[grid < 2.5].mean():.1f} mpg below 2500 lb, {std[grid > 4].mean():.1f} above 4000 lb"
    )
    ax.plot(grid, std, label=name)
ax.set(xlabel="weight (1000 lb)", ylabel="standard deviation (mpg)", ylim=(0, None))
ax.legend()
plt.show()

# %%
# The noise is 4.1 mpg for light cars and 1.6 mpg for heavy cars. The epistemic part is smallest in the
# middle, where most cars are, and increases toward both ends.
