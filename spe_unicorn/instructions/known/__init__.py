"""Which feature allows an instruction, of all of A64 that came after Armv8.0.

``features`` are the features, with the ID field of each, ``rows`` says what a row of the tables is,
and the tables themselves are ``general``, ``system``, ``vectors`` and ``scalable``. ``finding``
finds the features of a word, for people and for compiled code. ``judging`` says whether a core has
one. Nothing here carries anything out.
"""
