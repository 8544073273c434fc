"""Estimators: the only folder that knows scikit-learn's rules."""

from sparsebayes.estimators.classifiers import RVC, SparseBayesClassifier
from sparsebayes.estimators.regressors import RVR, SparseBayesRegressor

__all__ = ["RVC", "RVR", "SparseBayesClassifier", "SparseBayesRegressor"]
