"""Pictures of fitted models and of signals, in the manner of scikit-learn's displays.

Every class here draws itself when it is made by ``from_estimator``, ``from_result`` and their like,
into the axes given as ``ax=`` or into a new figure of matplotlib, and keeps what it drew: numbers
as its parameters, artists as attributes that end in an underscore.
"""

from sparsebayes.plotting.atom_evidence import AtomEvidenceDisplay
from sparsebayes.plotting.decision import DecisionDisplay
from sparsebayes.plotting.evidence_path import EvidencePathDisplay
from sparsebayes.plotting.fit import FitDisplay
from sparsebayes.plotting.relevance import RelevanceDisplay
from sparsebayes.plotting.reliability import ReliabilityDisplay
from sparsebayes.plotting.shrinkage import ShrinkageDisplay
from sparsebayes.plotting.signal import SignalDisplay

__all__ = [
    "AtomEvidenceDisplay",
    "DecisionDisplay",
    "EvidencePathDisplay",
    "FitDisplay",
    "RelevanceDisplay",
    "ReliabilityDisplay",
    "ShrinkageDisplay",
    "SignalDisplay",
]
