"""The tables of `report` and `annotate`: at a glance, by calls, by cache lines, two recordings."""
