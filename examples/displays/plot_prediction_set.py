"""
Do sets of classes cover what they claim? PredictionSetDisplay
==============================================================

:class:`~skuq.displays.PredictionSetDisplay` compares the coverage of prediction sets with the nominal one and
with the probability that the sets claim, the dashed curve. A calibrated classifier lies on the dashed curve;
conformal sets lie on the diagonal.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB

from skuq.classifiers import ConformalClassifier
from skuq.displays import PredictionSetDisplay

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X / 16, y, test_size=0.5, random_state=0)
bayes = GaussianNB(var_smoothing=0.01)
models = {
    "logistic regression": LogisticRegression(max_iter=500),
    "naive Bayes": bayes,
    "naive Bayes, conformal": ConformalClassifier(bayes, random_state=0),
}
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 5), layout="constrained")
for name, model in models.items():
    model.fit(X_train, y_train)
    display = PredictionSetDisplay.from_estimator(model, X_test, y_test, name=name, ax=left)
    row = display.table.set_index("nominal").loc[0.9]
    print(f"{name:23s} covers {row['coverage']:.3f}, claims {row['claimed']:.3f}")
    display.plot(right, show="size")
plt.show()

# %%
# Naive Bayes claims 99.8 % at a nominal coverage of 90 %, and covers 92 %: overconfident. Logistic regression
# is underconfident here. Calibrated conformally, naive Bayes has the nominal coverage where that is above its
# accuracy, 90 %; for 98 % it takes all classes.
