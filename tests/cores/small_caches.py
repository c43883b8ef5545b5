"""Small caches, and instructions that the tests of caches execute."""

from __future__ import annotations

from spe_unicorn.arch.operation import CostClass, Family, Instruction
from spe_unicorn.cores.model_numbers import CacheNumbers, ModelNumbers, TLBNumbers

LOAD = Instruction(0, Family.LOAD, cost=CostClass.LOAD)
STORE = Instruction(1, Family.STORE, cost=CostClass.STORE)
ATOMIC = Instruction(2, Family.ATOMIC, cost=CostClass.ATOMIC)
ATOMIC_STORE = Instruction(3, Family.ATOMIC_STORE, cost=CostClass.ATOMIC)

# 2 lines, 4 lines, 8 lines; 1 page, 2 pages
NUMBERS = ModelNumbers(
    l1_tlb=TLBNumbers(1, 1, 1),
    l2_tlb=TLBNumbers(2, 2, 5),
    walk=30,
    l1d=CacheNumbers(128, 2, 4),
    l2=CacheNumbers(256, 4, 12),
    last=CacheNumbers(512, 8, 60),
    memory=150,
)
