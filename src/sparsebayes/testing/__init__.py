"""Checks for what users write themselves.

An object that passes its check can be given to an estimator: a dictionary that passes
`check_dictionary`, a prior that passes `check_hyperprior`, a likelihood that passes
`check_likelihood`.
"""

from sparsebayes.testing.dictionaries import check_dictionary
from sparsebayes.testing.hyperpriors import check_hyperprior
from sparsebayes.testing.likelihoods import check_likelihood

__all__ = ["check_dictionary", "check_hyperprior", "check_likelihood"]
