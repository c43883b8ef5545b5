"""A GICv3 with fake PEs around it, driven as software drives one."""

from __future__ import annotations

from spe_unicorn.arch.features import Feature, Features
from spe_unicorn.arch.pe import EL1, EL3
from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.arch.registers.system import HCR_EL2, SCR_EL3
from spe_unicorn.devices.gicv3 import GICPort, GICv3
from tests.support.fakes import FakeLine, FakePE

SCR_NS, SCR_IRQ, SCR_FIQ = 1, 2, 4

GICD_CTLR = 0x0
IGROUPR, ISENABLER, ICENABLER = 0x80, 0x100, 0x180
ISPENDR, ICPENDR, ISACTIVER, ICACTIVER = 0x200, 0x280, 0x300, 0x380
IPRIORITYR, ICFGR, IGRPMODR, NSACR = 0x400, 0xC00, 0xD00, 0xE00
IROUTER = 0x6000
IRM = 1 << 31
WAKER = 0x14
SGI_BASE = 0x1_0000
FRAMES = 0x2_0000


FEATURES = frozenset({Feature.FEAT_EL2, Feature.FEAT_EL3, Feature.FEAT_VHE})


class Board:
    """One GIC; with ``two_states`` an EL3 monitor's, else one whose Group 1 is a kernel's."""

    def __init__(
        self,
        pes: int = 1,
        *,
        two_states: bool = False,
        features: Features = FEATURES,
        affinities: tuple[int, ...] = (),
    ) -> None:
        scr = 0 if two_states else SCR_NS
        el = EL3 if two_states else EL1
        self.pes = [FakePE({SCR_EL3: scr}, el=el, features=features) for _ in range(pes)]
        self.irq = [FakeLine() for _ in range(pes)]
        self.fiq = [FakeLine() for _ in range(pes)]
        affinities = affinities or tuple(range(pes))
        self.gic = GICv3(
            [
                GICPort(pe, affinity, irq, fiq)
                for pe, affinity, irq, fiq in zip(
                    self.pes, affinities, self.irq, self.fiq, strict=True
                )
            ],
            two_security_states=two_states,
        )

    def lines(self, pe: int = 0) -> str:
        """What a PE's inputs show."""
        names = [
            name for name, line in (("IRQ", self.irq[pe]), ("FIQ", self.fiq[pe])) if line.level
        ]
        return "+".join(names)

    def be(self, el: int, scr: int, pe: int = 0) -> None:
        """Take a PE to an Exception level and Security state."""
        self.pes[pe].el = el
        self.pes[pe].registers.set_raw(SCR_EL3, scr)
        self.gic.cpu_interfaces[pe].update()

    def set_hcr(self, value: int, pe: int = 0) -> None:
        self.pes[pe].registers.set_raw(HCR_EL2, value)

    def mrs(self, register: type[SysReg], pe: int = 0) -> int:
        return self.gic.cpu_interfaces[pe].read(register)

    def msr(self, register: type[SysReg], value: int, pe: int = 0) -> None:
        self.gic.cpu_interfaces[pe].write(register, value)

    def gicd(self, offset: int, value: int, *, secure: bool = True, size: int = 4) -> None:
        self.gic.distributor.write(offset, size, value, secure=secure)

    def read_gicd(self, offset: int, *, secure: bool = True, size: int = 4) -> int:
        return self.gic.distributor.read(offset, size, secure=secure)

    def gicr(
        self, offset: int, value: int, *, pe: int = 0, secure: bool = True, size: int = 4
    ) -> None:
        self.gic.redistributors.write(pe * FRAMES + offset, size, value, secure=secure)

    def read_gicr(self, offset: int, *, pe: int = 0, secure: bool = True, size: int = 4) -> int:
        return self.gic.redistributors.read(pe * FRAMES + offset, size, secure=secure)

    def configure(
        self,
        intid: int,
        *,
        priority: int = 0xA0,
        group1: bool = True,
        modifier: bool = False,
        edge: bool = False,
        enabled: bool = True,
        pe: int = 0,
    ) -> None:
        """Set an interrupt up from Secure state, by read-modify-write as firmware does."""

        def write(offset: int, value: int, size: int = 4) -> None:
            if intid < 32:
                self.gicr(SGI_BASE + offset, value, pe=pe, size=size)
            else:
                self.gicd(offset, value, size=size)

        def read(offset: int) -> int:
            if intid < 32:
                return self.read_gicr(SGI_BASE + offset, pe=pe)
            return self.read_gicd(offset)

        def assign(offset: int, bits: int, bit: int, value: bool) -> None:
            write(offset, read(offset) & ~(bits << bit) | (bits << bit if value else 0))

        word, bit = intid // 32 * 4, intid % 32
        assign(IGROUPR + word, 1, bit, group1)
        assign(IGRPMODR + word, 1, bit, modifier)
        assign(ICFGR + intid // 16 * 4, 2, intid % 16 * 2, edge)
        write(IPRIORITYR + intid, priority, size=1)
        write((ISENABLER if enabled else ICENABLER) + word, 1 << bit)
