"""Tables and figures of the papers, computed anew: one package for each paper."""
