"""FEAT_SVE2p1: what it adds to SVE2; ``counters`` is how a predicate counts elements."""
