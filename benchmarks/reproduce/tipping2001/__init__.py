"""Tipping 2001, Sparse Bayesian Learning and the Relevance Vector Machine (JMLR 1, 211-244)."""
