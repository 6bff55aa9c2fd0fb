"""
Are class probabilities calibrated? ClassReliabilityDisplay
===========================================================

:class:`~skuq.displays.ClassReliabilityDisplay` compares predicted class probabilities with observed
frequencies. It uses the probability of the most probable class of each row, or the probability of one given
class (``of_class``). If the curve is below the diagonal, the classifier is overconfident. If it is above the
diagonal, the classifier is underconfident.
"""

import matplotlib.pyplot as plt
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB

from skuq.displays import ClassReliabilityDisplay
from skuq.metrics import get_scorer

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=0)
models = {
    "naive Bayes": GaussianNB(var_smoothing=0.01),
    "forest": RandomForestClassifier(100, random_state=0),
    "forest, calibrated": CalibratedClassifierCV(
        RandomForestClassifier(100, random_state=0), method="isotonic", cv=3
    ),
}
ax = None
for name, model in models.items():
    model.fit(X_train, y_train)
    display = ClassReliabilityDisplay.from_estimator(
        model, X_test, y_test, n_bins=8, name=name, ax=ax
    )
    ax = display.ax_
    print(
        f"{name:18s} expected calibration error {-get_scorer('neg_ece')(model, X_test, y_test):.3f}"
    )
plt.show()

# %%
# Naive Bayes is overconfident at all probabilities. The forest is underconfident, because its trees disagree:
# if the forest predicts a probability of 0.6, its prediction is almost always right. After the forest is
# calibrated, most rows are in the last bin.
#
# With ``strategy="isotonic"``, you do not choose bins. The band is the range of the curves of calibrated
# probabilities:

ClassReliabilityDisplay.from_estimator(
    models["naive Bayes"], X_test, y_test, strategy="isotonic", name="naive Bayes"
)
plt.show()
