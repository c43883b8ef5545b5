"""Instructions that the tests of caches execute."""

from __future__ import annotations

from spe_unicorn.arch.operation import CostClass, Family, Instruction

LOAD = Instruction(0, Family.LOAD, cost=CostClass.LOAD)
STORE = Instruction(1, Family.STORE, cost=CostClass.STORE)
ATOMIC = Instruction(2, Family.ATOMIC, cost=CostClass.ATOMIC)
ATOMIC_STORE = Instruction(3, Family.ATOMIC_STORE, cost=CostClass.ATOMIC)
