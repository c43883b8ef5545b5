"""What guests of random hypervisors and monitors execute, and all that a PE is afterwards."""

from __future__ import annotations

from spe_unicorn.machine.board import Board
from tests.support import a64 as a

VECTORS = (0x200, 0x280, 0x400, 0x480)
"""Synchronous exceptions and IRQs, from the current and from a lower Exception level."""
TPIDR, ZCR = (3, 0, 13, 0, 4), (3, 0, 1, 2, 0)
IN_GUEST = (
    *(a.mrs(6, TPIDR), a.mrs(6, (3, 0, 0, 6, 0)), a.mrs(6, (2, 0, 0, 2, 2)), a.fadd(1, 2, 3)),
    *(a.msr((3, 0, 2, 0, 0), 6), a.mrs(6, (3, 3, 14, 0, 1)), a.add_imm(7, 7, 1)),
    *(a.msr((3, 0, 1, 0, 2), 31), a.mrs(6, (3, 3, 9, 12, 0)), a.mrs(6, ZCR), a.svc(3), a.ERET),
)
"""TPIDR_EL1, ID_AA64ISAR0_EL1, MDSCR_EL1, FP, TTBR0_EL1, CNTPCT_EL0, CPACR_EL1, PMCR_EL0, ZCR_EL1:
most of it traps by one of those values."""


def outcome(subject: Board) -> dict[str, object]:
    cpu = subject.cpu
    state = cpu.state
    return {
        "x": cpu.engine.general(),
        "pc": cpu.pc,
        "pstate": cpu.pstate,
        "executed": cpu.executed,
        "raw": {r.__name__: cpu.registers.raw(r) for r in cpu.registers},
        "state": [int(n) for n in (state.suspect, state.counters, state.legal_returns)],
        "last": cpu.entries.last_exception,
        "cells": cpu.hooks.accesses.save(),
    }
