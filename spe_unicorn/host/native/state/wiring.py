"""Addresses of functions and tables, and what is fixed when a machine is built."""

from __future__ import annotations

import ctypes
from typing import Final

from spe_unicorn.host.native.state.field import Field, Writer

ENTRY_PSTATE: Final = 8
"""Words of the table ``entry_pstate``: for each Exception level what an exception taken there
leaves of PSTATE, and what it sets."""
LINES: Final = 1 << 10
"""Physical addresses that the table ``code_lines`` holds."""


class Wiring(ctypes.Structure):
    """Addresses of functions and tables, and what is fixed when a machine is built."""

    FIELDS: Final = tuple(
        Field(name, Writer.ONCE, meaning)
        for name, meaning in (
            ("model_hook", "The core model's hook for blocks, called before all; 0: none."),
            ("model", "The state that `model_hook` is given (`model.ModelState`)."),
            ("mispredicted", "`model.mispredicted_at`; 0 without a core model."),
            ("access_hook", "What code that compares lines calls for another line."),
            ("told_access", "The core model's hook for accesses (`model.on_access`); 0: none."),
            ("store_hook", "What that code calls for a store that the engine's TLB does not have."),
            ("special_hook", "The hook for blocks that the block hook does not count by itself."),
            ("quick", "Table of blocks known to be harmless, by `slot_of`."),
            ("inline", "What inline counting shares with Python (`inline.INLINE`); 0 without it."),
            ("inline_hook", "What replaces calls of the block hook."),
            ("checked", "What accesses look at while memory is checked (`checked.CHECKED`); or 0."),
            ("cover", "Table for coverage: rows of `cover.COVER_ROW`; 0 without coverage."),
            ("led", "Table of what led to samples: rows of `frames.ROW_WORDS`; 0 if nobody asks."),
            ("call_stacks", "What follows calls as they are executed: `calls.CALLS`; or 0."),
            ("flow_hook", "What is called after blocks are counted, for the last branch; 0: none."),
            ("ends", "Table of what the operation before an address can do: see `flow.end_of`."),
            (
                "unwinding",
                "What finds calls by call frame information: `unwinding.UNWINDING`; or 0.",
            ),
            ("cover_hook", "What is called before blocks, for coverage and calls; 0: none."),
            ("stacks", "Table of stacks that coverage checks: rows of `cover.STACK_ROW`; or 0."),
            ("weights", "Table of how many members each block has."),
            ("block_keys", "Table of blocks: address XOR operations."),
            ("block_epochs", "Table of the epochs for which the rows of `block_keys` hold."),
            ("block_marks", "Table of the marks of blocks."),
            ("trapped", "Table of what is or was trapped: a byte for each number of `trap_id`."),
            ("block_plans", "Table of where the plans of blocks begin in `plans`."),
            ("plans", "The pool of plans and code."),
            ("actions", "Tables of an `Action` for each encoding: MRS, MSR, SYS."),
            ("cells", "Table of values for each encoding."),
            ("aliases", "Table of `Encoding.key` of what names of EL1 mean to a host at EL2."),
            ("matters", "Table of the bits of each register whose change is noticed."),
            ("withheld", "Table of the bits of each register that the engine does not get."),
            ("known", "Table of which features words need: `instructions.known.finding.TABLE`."),
            ("absent", "Features that the engine has and the core must not have, a bit each."),
            ("tallies", "Table of what each block adds to the lanes, by `slot_of`."),
            ("samples", "The ring of samples: rows of SAMPLE."),
            ("chosen", "Table of the pending samples: rows of PENDING."),
            ("gaps", "Members from each sample in the ring to the one after it."),
            ("sampling_register", "The function that reads a register for `Action.SAMPLING`."),
            ("sampling_registers", "What `sampling_register` knows of the unit that samples."),
            ("wrong_paths", "Table of walks: rows of `walks.WALK`."),
            ("wrong_members", "Table of the members of walks: rows of `walks.WALK_MEMBER`."),
            ("checks", "Table of operations that are checked: rows of `checks.CHECK`."),
            ("ranges", "Table of watched ranges: rows of `checks.RANGE`."),
            ("looked_at", "Tables of the encodings that observers look at: MRS, MSR, SYS."),
            ("notes", "The ring of operations for a trace: rows of `checks.NOTED`."),
            ("code_lines", "Table of physical addresses of lines of code."),
            ("gic", "Table of the PEs of the interrupt controller: rows of `gic.GIC_PE`."),
            ("gic_pes", "Rows of the table `gic`: the PEs of the machine."),
            ("gic_own", "The row of the table `gic` that is this PE's."),
            ("timers", "What the timers hold, as `devices.timer_cells` has it; 0: Python answers."),
            ("uart", "Table of what compiled code may answer for the UART: `PL011.cells`."),
            ("control_sets", "Table of what sets of controls mean: rows of `switches.SET`."),
            ("control_switches", "Table of writes from set to set: rows of `switches.SWITCH`."),
            ("named", "HCR_EL2 and SCTLR_EL3 as the engine names registers."),
            ("saved_states", "SPSR_EL1, SPSR_EL2 and SPSR_EL3, named in the same way."),
            ("stepping", "MDSCR_EL1, named in the same way."),
            ("alias", "Room for any register of EL1 or EL2, named in the same way."),
            ("system_controls", "SCTLR_EL1, SCTLR_EL2 and SCTLR_EL3, named in the same way."),
            ("values", "Room for what the steps of a recipe give."),
            ("entry_pstate", "Table of what an exception leaves of PSTATE and what it sets."),
            ("translated", "What code is translated: `translated.TRANSLATED_CODE`; 0: unknown."),
            ("code", "Room for the words of one block."),
            ("context", "Room for a saved state of the engine."),
            ("exception", "Where in `context` the engine describes an exception."),
            ("ask", "The function of Python that answers `Action.ASK`."),
            ("awaited", "What accesses may have to stop the engine: an `awaited.AWAITED`; or 0."),
            ("data_side", "The words of the core model's caches and TLBs; 0 without such a model."),
            ("predictor", "The words of the core model's branch predictor."),
            ("emu_stop", "`uc_emu_stop`."),
            ("reg_read", "`uc_reg_read`."),
            ("reg_write", "`uc_reg_write`."),
            ("context_save", "`uc_context_save`."),
            ("context_restore", "`uc_context_restore`."),
            ("context_write", "`uc_context_reg_write`."),
            ("vmem_translate", "`uc_vmem_translate`."),
            ("vmem_read", "`uc_vmem_read`."),
            ("mem_write", "`uc_mem_write`."),
            ("zeros", "As many bytes that are 0 as DC ZVA writes."),
            ("ram_begin", "Where the RAM begins that compiled code may access."),
            ("ram_end", "Where that RAM ends; 0: none."),
            ("tags", "The Allocation Tags of the RAM from `tags_begin` on, a byte for each; or 0."),
            ("tags_used", "For each page of that RAM, whether it has or had a tag that is not 0."),
            ("tags_begin", "Where the RAM begins whose tags compiled code reads."),
            ("tags_end", "Where that RAM ends; 0: none."),
            ("control", "`uc_ctl`."),
            ("pc_mask", "The bits of the PC that must be 0."),
            ("ticks_of", "Ticks that the system counter goes in `cycles_of` cycles."),
            ("cycles_of", "Cycles in which the system counter goes `ticks_of` ticks."),
        )
    )
    _fields_ = [(field.name, ctypes.c_int64) for field in FIELDS]
