"""Memory in the Secure physical address space, which the engine does not keep apart from the rest.

While the PE is in Non-secure state, the engine has no rights to Secure memory. An access that it
refuses is an External abort. The rights come back when the PE leaves that state. Taking rights away
does not reach translations that the engine's TLB holds. But each Security state has entries of its
own there, and those of refused accesses are flushed.

In Secure state an access is Non-secure if the translation says so (NS and NSTable in descriptors).
The engine ignores these bits. While the tables of the regime map Secure memory as Non-secure, the
engine may only execute there, and the host looks at every access that the engine refuses.
"""

from __future__ import annotations

from unicorn import UC_PROT_ALL, UC_PROT_EXEC, UC_PROT_NONE

from spe_unicorn.arch.memory.descriptors import AddressDescriptor, acc_desc_gpr
from spe_unicorn.arch.memory.regimes import context_for, translation_regime
from spe_unicorn.arch.memory.table_scan import maps_as_non_secure
from spe_unicorn.arch.memory.translation import full_translate
from spe_unicorn.arch.pe import EL3, PE, SecurityState
from spe_unicorn.arch.rules.effective import security_state_at
from spe_unicorn.arch.spaces import PASpace
from spe_unicorn.host.engine.engine import PC, Engine
from spe_unicorn.host.engine.memory import RamMemory
from spe_unicorn.host.native.state.whole import State


class SecureMemory:
    """Which accesses to Secure memory one PE may make."""

    DERIVED = ("space", "_given", "_looking", "_scanned", "_aliased")

    def __init__(self, pe: PE, engine: Engine, state: State, memory: RamMemory) -> None:
        self.space = PASpace.Secure
        """The physical address space of the access that is looked at."""
        self._pe = pe
        self._engine = engine
        self._state = state
        self._memory = memory
        self._regions = memory.secure()
        self._ranges = [(r.base, r.base + r.size) for r in self._regions]
        self._given: int | None = None
        """The engine's rights, ``UC_PROT_*``; None for all that the memory itself allows."""
        self._looking = False
        self._scanned: tuple[bool, int, int] | None = None
        self._aliased = False

    def changed(self) -> None:
        """The Security state, the Exception level or translation may have changed."""
        pe = self._pe
        self._looking = False
        if security_state_at(pe, pe.el) is SecurityState.NON_SECURE:
            self.space = PASpace.NonSecure
            if self._given != UC_PROT_NONE:
                # when the hook stops after an ERET, the engine has fetched what it leads to
                pc = self._engine.get(PC)
                self._engine.forget_code(pc, pc + 4)
                self._give(UC_PROT_NONE)
            return
        self.space = PASpace.Secure
        self._looking = self._has_aliases()
        self._give(UC_PROT_EXEC if self._looking else None)

    def holds(self, address: int) -> bool:
        """Whether a physical address is one of Secure memory."""
        return any(first <= address < end for first, end in self._ranges)

    def look_at(self, va: int | None, write: bool) -> None:
        """Set :attr:`space` to the physical address space of an access that the PE makes now.

        Without a ``va`` it is that of the PE's own Security state.
        """
        pe = self._pe
        if self._given == UC_PROT_NONE:
            return
        self.space = PASpace.Secure
        if va is None:
            return
        context = context_for(pe, translation_regime(pe, pe.el))
        if context.s1_enabled:
            access = acc_desc_gpr(pe.el, read=not write, write=write)
            found = full_translate(context, va, access, self._memory)
            if isinstance(found, AddressDescriptor):
                self.space = found.paspace

    def admits(self, address: int, va: int | None, write: bool) -> bool:
        """Whether an access that the engine refused is Secure, and so allowed.

        If so, the engine has the right to make it until :meth:`close`.
        """
        if not self._looking or not self.holds(address):
            return False
        self.look_at(va, write)
        if self.space is PASpace.NonSecure:
            return False
        self._give(None)
        return True

    @property
    def admitting(self) -> bool:
        """Whether the engine has that right for the next operation, and only for that one."""
        return self._looking and self._given is None

    def close(self) -> None:
        """The operation has been executed: take the right away again."""
        if self.admitting:
            self._give(UC_PROT_EXEC)

    def _give(self, rights: int | None) -> None:
        if rights == self._given:
            return
        self._given = rights
        for region in self._regions:
            region.give(self._engine.uc, UC_PROT_ALL if rights is None else rights)

    def _has_aliases(self) -> bool:
        """Whether the regime has Non-secure mappings of Secure memory.

        The tables are read again after a write to a register that steers translation, and after
        maintenance of TLBs.
        """
        pe, state = self._pe, self._state
        key = pe.el == EL3, int(state.writes), int(state.epoch)
        if key != self._scanned:
            self._scanned = key
            context = context_for(pe, translation_regime(pe, pe.el))
            self._aliased = maps_as_non_secure(context, self._ranges, self._memory)
        return self._aliased
