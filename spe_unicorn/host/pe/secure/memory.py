"""Memory in the Secure physical address space, which the engine does not keep apart from the rest.

While the PE is in Non-secure state, the engine has no rights to Secure memory. An access that it
refuses is an External abort. When the PE leaves that state, the rights come back with the first
access that is refused. So software which never makes one changes its Security state at no cost.
Taking rights away does not reach translations that the engine's TLB holds. But each Security state
has entries of its own there, and those of refused accesses are flushed.

In Secure state an access is Non-secure if the translation says so (NS and NSTable in descriptors).
The engine ignores these bits. While the tables of the regime map Secure memory as Non-secure, the
engine may only execute there, and the host looks at every access that the engine refuses.
"""

from __future__ import annotations

from unicorn import UC_PROT_ALL, UC_PROT_EXEC, UC_PROT_NONE

from spe_unicorn.arch.memory.descriptors import AddressDescriptor, acc_desc_gpr
from spe_unicorn.arch.memory.regimes import context_at
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

    TRANSIT = ("_space",)
    DERIVED = ("_given", "_looking", "_scanned", "_aliased")

    def __init__(self, pe: PE, engine: Engine, state: State, memory: RamMemory) -> None:
        self._space: PASpace | None = None
        """That of the access that is looked at."""
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
        if not self.open:
            return
        self._looking = False
        if self._is_non_secure():
            # when the hook stops after an ERET, the engine has fetched what it leads to
            pc = self._engine.get(PC)
            self._engine.forget_code(pc, pc + 4)
            self._give(UC_PROT_NONE)
        else:
            self._open()

    @property
    def open(self) -> bool:
        """Whether the engine has any rights, so that they change with the Security state."""
        return bool(self._given != UC_PROT_NONE)

    @property
    def looking(self) -> bool:
        """Whether the host looks at each access to Secure memory that the PE makes."""
        return self._looking

    @property
    def refuses(self) -> bool:
        """Whether the engine is to refuse some accesses to Secure memory."""
        return self._looking or self._given is not None

    def _open(self) -> None:
        """The PE is in Secure state: give the engine the rights that it has there."""
        self._looking = self._has_aliases()
        self._give(UC_PROT_EXEC if self._looking else None)

    def _is_non_secure(self) -> bool:
        pe = self._pe
        return security_state_at(pe, pe.el) is SecurityState.NON_SECURE

    def holds(self, address: int) -> bool:
        """Whether a physical address is one of Secure memory."""
        return any(first <= address < end for first, end in self._ranges)

    def translated(self, address: int) -> None:
        """The engine has translated to a physical address for the host, not for the guest.

        While accesses are refused it must not keep that translation: it looks at rights only where
        it has none.
        """
        if self.refuses and self.holds(address):
            self._engine.flush_tlb()

    @property
    def space(self) -> PASpace:
        """The physical address space of the access that is looked at.

        Without one it is that of the PE's Security state.
        """
        if self._space is not None:
            return self._space
        return PASpace.NonSecure if self._is_non_secure() else PASpace.Secure

    def begin_access(self, va: int | None, *, write: bool) -> None:
        """The PE now makes an access, by which :attr:`space` goes until :meth:`end_access`."""
        pe = self._pe
        self._space = None
        if va is None or self._is_non_secure():
            return
        context = context_at(pe, pe.el)
        if context.s1_enabled:
            access = acc_desc_gpr(pe.el, read=not write, write=write)
            found = full_translate(context, va, access, self._memory)
            if isinstance(found, AddressDescriptor):
                self._space = found.paspace

    def end_access(self) -> None:
        """The access is over."""
        self._space = None

    def admits(self, address: int, va: int | None, *, write: bool) -> bool:
        """Whether the engine is to try an access that it refused once more.

        It has the right to make it until :meth:`close`, if Secure memory is not open to it anyway.
        """
        if not self.holds(address):
            return False
        if not self.open and not self._is_non_secure():
            self._open()
            return True
        if not self._looking:
            return False
        self.begin_access(va, write=write)
        space = self.space
        self.end_access()
        if space is PASpace.NonSecure:
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
            context = context_at(pe, pe.el)
            self._aliased = maps_as_non_secure(context, self._ranges, self._memory)
        return self._aliased
