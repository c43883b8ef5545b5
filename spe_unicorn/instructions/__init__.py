"""Instructions that the engine lacks: what each does with the registers of a PE.

``decoder`` finds the row of an instruction word, ``features`` say which rows there are, ``carry``
carries one out. All of it is pure: the registers are numbers in memory (``registers``), and nobody
here knows where they come from. The functions are compiled (``spe_unicorn.compiled``); the hook for
exceptions and Python call the same machine code.
"""
