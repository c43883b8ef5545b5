"""FEAT_SVE2: what it adds to SVE, by the form of the operands."""
