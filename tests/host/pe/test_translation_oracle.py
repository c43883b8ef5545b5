"""Our walker against the engine's, over random tables in every regime that the engine has.

The engine's walker is that of QEMU 5.0 on its MAX model. Where it is known to differ from the
architecture, the tables here keep away; each such place has a pure test instead:

- no hardware update of the access flag or dirty state, so TCR.HA and HD stay 0;
- no address size faults: addresses stay below IPS, PS and, with stage 1 off, PAMax;
- TxSZ out of range is clamped, so it stays in range;
- a block descriptor is taken at any level, so there are none at levels that have no blocks;
- no XNX, E0PD, EPAN, LPA, LPA2 or TTST, and no Secure stage 2;
- a stage 2 fault on a stage 1 walk is reported as a Translation fault at the stage 1 level, so
  only the address is compared, and HCR_EL2.PTW stays 0;
- Normal Non-cacheable at one stage counts as nGnRE beside Device at the other, so of two stages'
  Device types only that they are Device is compared;
- the shareability that it reports is the descriptor's, not the effective one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

import pytest

from spe_unicorn.arch.memory.descriptors import (
    AccessDescriptor,
    AccessType,
    AddressDescriptor,
    FaultRecord,
    Regime,
    acc_desc_gpr,
    acc_desc_ifetch,
)
from spe_unicorn.arch.memory.regimes import TranslationContext, translation_context
from spe_unicorn.arch.memory.translation import full_translate
from spe_unicorn.arch.memory.vmsa import VMSA
from spe_unicorn.arch.memory.walk_parameters import S1TTWParams, Stage1Registers, Stage2Registers
from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.arch.registers.system import (
    HCR_EL2,
    MAIR_EL1,
    MAIR_EL2,
    MAIR_EL3,
    SCR_EL3,
    SCTLR_EL1,
    SCTLR_EL2,
    SCTLR_EL3,
    TCR_EL1,
    TCR_EL2,
    TCR_EL3,
    TTBR0_EL1,
    TTBR0_EL2,
    TTBR0_EL3,
    TTBR1_EL1,
    TTBR1_EL2,
    VTCR_EL2,
    VTTBR_EL2,
)
from spe_unicorn.arch.spaces import PASpace
from tests.host.engine_walker import (
    FETCH,
    HAS_INTERNAL,
    READ,
    WRITE,
    EngineAnswer,
    EngineWalker,
    MMUIndex,
)
from tests.host.random_tables import AF, LEAF_ATTRIBUTES, Pool, Tables

RAM, SIZE = 0x4000_0000, 0x200_0000
PA_BITS = 44
ENGINE = VMSA(pa_bits=PA_BITS, af=False, dbm=False, epan=False, e0pd=False, xnx=False)
MAIR = 0xFF_BB_44_4F_A4_0C_04_00
"""Every cacheability and Device type, but no transient hints."""
SEEDS = range(8)
ADDRESSES = 40

needs_internal = pytest.mark.skipif(not HAS_INTERNAL, reason="the library hides its walker")


@pytest.fixture(scope="module")
def engine() -> EngineWalker:
    return EngineWalker(RAM, SIZE)


class Memory:
    """Our walker's view of the tables."""

    def __init__(self, cells: dict[int, int], big_endian: bool) -> None:
        self.cells, self.big_endian = cells, big_endian

    def read(self, address: int, size: int, space: PASpace) -> bytes | None:
        value = self.cells.get(address, 0)
        return value.to_bytes(size, "big" if self.big_endian else "little")

    def write(self, address: int, data: bytes, space: PASpace) -> bool:
        raise AssertionError("nothing here lets hardware write descriptors")


class Case:
    """One random regime with its tables, in the engine and for us."""

    def __init__(
        self,
        engine: EngineWalker,
        regime: Regime,
        granule: int,
        seed: int,
        *,
        secure: bool = False,
        stage2_granule: int | None = None,
    ) -> None:
        self.engine, self.regime = engine, regime
        self.rng = rng = Random(f"{regime}{granule}{seed}{secure}{stage2_granule}")
        self.big_endian = rng.random() < 0.2
        pool = Pool(RAM, RAM + SIZE)
        scr = SCR_EL3.of(NS=not secure, RW=1, HCE=1, SIF=rng.getrandbits(1)).value
        engine.set_pstate(_PSTATE[regime])
        engine.set(SCR_EL3, scr)
        hcr = HCR_EL2.of(RW=1, VM=stage2_granule is not None).value
        if regime is Regime.EL20:
            hcr |= HCR_EL2.E2H.mask | HCR_EL2.TGE.mask
        engine.set(HCR_EL2, hcr)
        stage2 = None
        if stage2_granule is not None:
            stage2 = self._stage2_registers(hcr, stage2_granule, pool)
        stage1 = self._stage1_registers(granule, pool)
        paspace = PASpace.Secure if secure or regime is Regime.EL3 else PASpace.NonSecure
        self.context: TranslationContext = translation_context(
            regime, stage1, stage2, paspace=paspace, vmsa=ENGINE, sif=bool(scr & SCR_EL3.SIF.mask)
        )
        self.tables = Tables(rng, pool, self._put)
        self.addresses = [self._address() for _ in range(ADDRESSES)]
        self.memory = Memory(self.tables.cells, self.big_endian)

    def _put(self, address: int, descriptor: int) -> None:
        self.engine.put(address, descriptor, self.big_endian)

    def close(self) -> None:
        """Leave the memory as it was."""
        for address in self.tables.cells:
            self.engine.put(address, 0, False)

    def _stage1_registers(self, granule: int, pool: Pool) -> Stage1Registers:
        rng, engine = self.rng, self.engine
        sctlr = SCTLR_EL1.of(
            M=1, C=1, I=1, EE=self.big_endian, WXN=rng.random() < 0.25, SPAN=1
        ).value
        sizes = [rng.randint(16, 39), rng.randint(16, 39)]
        bases = [self._base(pool), self._base(pool)]
        if self.regime.has_unprivileged:
            flags = {
                name: rng.random() < 0.3
                for name in ("TBI0", "TBI1", "TBID0", "TBID1", "HPD0", "HPD1")
            }
            epd = {name: rng.random() < 0.05 for name in ("EPD0", "EPD1")}
            tcr = TCR_EL1.of(
                T0SZ=sizes[0],
                T1SZ=sizes[1],
                TG0=_TG0[granule],
                TG1=_TG1[granule],
                IPS=4,
                **flags,
                **epd,
            ).value
        else:
            flags = {name: rng.random() < 0.3 for name in ("TBI", "TBID", "HPD")}
            tcr = TCR_EL3.of(T0SZ=sizes[0], TG0=_TG0[granule], PS=4, **flags).value
        names = _STAGE1[self.regime]
        values = (sctlr, tcr, bases[0], bases[1], MAIR)
        for register, value in zip(names, values, strict=True):
            if register is not None:
                engine.set(register, value)
        return Stage1Registers(*values)

    def _base(self, pool: Pool) -> int:
        table = pool.take(1 << 16, 1 << 16)
        assert table is not None
        asid = 0 if self.regime is Regime.EL3 else self.rng.getrandbits(16) << 48
        return asid | table | self.rng.getrandbits(1)

    def _stage2_registers(self, hcr: int, granule: int, pool: Pool) -> Stage2Registers:
        rng = self.rng
        sl0, least, most = rng.choice(_STAGE2_SIZES[granule])
        vtcr = VTCR_EL2.of(
            T0SZ=64 - rng.randint(least, most), SL0=sl0, TG0=_TG0[granule], PS=4
        ).value
        table = pool.take(16 << granule, 16 << granule)
        assert table is not None
        vttbr = rng.getrandbits(8) << 48 | table
        sctlr = SCTLR_EL2.of(EE=self.big_endian).value
        for register, value in ((VTCR_EL2, vtcr), (VTTBR_EL2, vttbr), (SCTLR_EL2, sctlr)):
            self.engine.set(register, value)
        return Stage2Registers(hcr=hcr, vtcr=vtcr, vttbr=vttbr, sctlr=sctlr)

    def _address(self) -> int:
        """A virtual address, mostly in range, and tables that go some way towards it."""
        rng, context = self.rng, self.context
        params = context.lower
        if context.upper is not None and rng.random() < 0.5:
            params = context.upper
        ia = self._sparse(params)
        self._map(params, ia)
        va = ia | -(1 << params.iasize) & (1 << 64) - 1 if params.upper else ia
        if rng.random() < 0.3:
            va = va & (1 << 56) - 1 | rng.getrandbits(8) << 56
        if rng.random() < 0.08:
            va ^= 1 << rng.randint(params.iasize, 63)
        return va

    def _sparse(self, params: S1TTWParams) -> int:
        """An input address whose table indexes take few values, so that paths share tables."""
        rng = self.rng
        ia = rng.getrandbits(params.granule)
        for lsb in range(params.granule, params.iasize, params.stride):
            ia |= rng.choice((0, 1, 2, rng.getrandbits(params.stride))) << lsb
        return ia & (1 << params.iasize) - 1

    def _map(self, params: S1TTWParams, ia: int) -> None:
        rng, stage2 = self.rng, self.context.stage2
        in_range = stage2 is not None and rng.random() < 0.97
        output = rng.getrandbits(stage2.iasize if stage2 and in_range else PA_BITS)
        path, ipa = self.tables.grow(params, ia, self._leaf_attributes, output)
        if stage2 is None:
            return
        for address in path:
            if address >> stage2.iasize == 0:
                self.tables.grow(
                    stage2, address, self._table_page, address, solid=rng.random() < 0.97
                )
        if ipa is not None and ipa >> stage2.iasize == 0:
            self.tables.grow(
                stage2,
                ipa,
                self._stage2_attributes,
                rng.getrandbits(PA_BITS),
                solid=rng.random() < 0.5,
            )

    def _leaf_attributes(self) -> int:
        rng = self.rng
        return rng.getrandbits(64) & LEAF_ATTRIBUTES | (AF if rng.random() < 0.95 else 0)

    def _table_page(self) -> int:
        """Stage 2 attributes of memory that holds tables: readable, but for a few."""
        readable = self.rng.random() < 0.98
        return self._stage2_attributes() | (1 << 6 if readable else 0)

    def _stage2_attributes(self) -> int:
        """As stage 1's, but for the reserved values of MemAttr (x00 but Device)."""
        attributes = self._leaf_attributes()
        reserved = attributes >> 4 & 3 and not attributes >> 2 & 3
        return attributes | 1 << 2 if reserved else attributes


_PSTATE = {Regime.EL10: 0x3C5, Regime.EL20: 0x3C9, Regime.EL2: 0x3C9, Regime.EL3: 0x3CD}
CaseMaker = Callable[..., Case]

_TG0 = {12: 0, 14: 2, 16: 1}
_TG1 = {12: 2, 14: 1, 16: 3}
_STAGE2_SIZES = {
    12: [(0, 32, 34), (1, 32, 43), (2, 40, 44)],
    14: [(1, 32, 40), (2, 37, 44)],
    16: [(0, 32, 33), (1, 32, 44), (2, 43, 44)],
}
"""By granule: SL0 and the IPA sizes that fit it, of those that reach the tables' memory."""

_STAGE1: dict[Regime, tuple[type[SysReg] | None, ...]] = {
    Regime.EL10: (SCTLR_EL1, TCR_EL1, TTBR0_EL1, TTBR1_EL1, MAIR_EL1),
    Regime.EL20: (SCTLR_EL2, TCR_EL2, TTBR0_EL2, TTBR1_EL2, MAIR_EL2),
    Regime.EL2: (SCTLR_EL2, TCR_EL2, TTBR0_EL2, None, MAIR_EL2),
    Regime.EL3: (SCTLR_EL3, TCR_EL3, TTBR0_EL3, None, MAIR_EL3),
}


@pytest.fixture
def make_case(engine: EngineWalker) -> Iterator[CaseMaker]:
    """Make cases; their tables are wiped afterwards."""
    cases: list[Case] = []

    def make(
        regime: Regime,
        granule: int,
        seed: int,
        *,
        secure: bool = False,
        stage2_granule: int | None = None,
    ) -> Case:
        case = Case(engine, regime, granule, seed, secure=secure, stage2_granule=stage2_granule)
        cases.append(case)
        return case

    yield make
    for case in cases:
        case.close()


_PRIVILEGES = {
    (Regime.EL10, False): [(0, MMUIndex.E10_0), (1, MMUIndex.E10_1)],
    (Regime.EL10, True): [(0, MMUIndex.SE10_0), (1, MMUIndex.SE10_1)],
    (Regime.EL20, False): [(0, MMUIndex.E20_0), (2, MMUIndex.E20_2)],
    (Regime.EL2, False): [(2, MMUIndex.E2)],
    (Regime.EL3, False): [(3, MMUIndex.SE3)],
}
"""By regime and whether Secure: the Exception levels that use it, as the engine calls them."""
_WITH_PAN = {
    MMUIndex.E10_1: MMUIndex.E10_1_PAN,
    MMUIndex.SE10_1: MMUIndex.SE10_1_PAN,
    MMUIndex.E20_2: MMUIndex.E20_2_PAN,
}


def accesses(el: int, index: MMUIndex) -> Iterator[tuple[AccessDescriptor, int, MMUIndex]]:
    """Every kind of access at one privilege: ours, and the engine's name for it."""
    yield acc_desc_gpr(el, read=True), READ, index
    yield acc_desc_gpr(el, write=True), WRITE, index
    yield acc_desc_ifetch(el), FETCH, index
    if index in _WITH_PAN:
        yield acc_desc_gpr(el, read=True, pan=True), READ, _WITH_PAN[index]
        yield acc_desc_gpr(el, write=True, pan=True), WRITE, _WITH_PAN[index]


def agree(
    case: Case,
    access: AccessDescriptor,
    ours: AddressDescriptor | FaultRecord,
    theirs: EngineAnswer,
) -> bool:
    """Whether both walkers say the same."""
    if isinstance(ours, FaultRecord):
        if ours.s1ptw:
            return theirs.stage2 and theirs.s1ptw and theirs.ipa == ours.ipa
        return (ours.kind, ours.level, ours.stage2, ours.s1ptw, ours.ipa or 0) == (
            theirs.fault,
            theirs.level,
            theirs.stage2,
            theirs.s1ptw,
            theirs.ipa,
        )
    if theirs.fault is not None:
        return False
    if (ours.paddress, ours.paspace is PASpace.Secure) != (theirs.paddress, theirs.secure):
        return False
    # With two stages the engine tells the size of the second's block only.
    if case.context.stage2 is None and theirs.page_size != 1 << ours.page_size_log2:
        return False
    # A fetch from Device memory counts as one from Normal memory with us.
    if access.acctype is AccessType.IFETCH or ours.memattrs.attr == theirs.attr:
        return True
    both_devices = ours.memattrs.is_device and theirs.attr < 0x10
    return case.context.stage2 is not None and both_devices


def compare(case: Case, secure: bool = False) -> tuple[int, int]:
    """Compare every access to every address; how many there were, and how many succeeded."""
    asked = successes = 0
    for va in case.addresses:
        for el, index in _PRIVILEGES[case.regime, secure]:
            for access, kind, engine_index in accesses(el, index):
                ours = full_translate(case.context, va, access, case.memory)
                theirs = case.engine.walk(va, kind, engine_index)
                assert agree(case, access, ours, theirs), (
                    f"{va:#x} {access}\nours   {ours}\nengine {theirs}\n{case.context}"
                )
                asked += 1
                successes += isinstance(ours, AddressDescriptor)
    return asked, successes


@needs_internal
@pytest.mark.parametrize("granule", [12, 14, 16])
@pytest.mark.parametrize(
    ("regime", "secure"),
    [
        (Regime.EL10, False),
        (Regime.EL10, True),
        (Regime.EL20, False),
        (Regime.EL2, False),
        (Regime.EL3, False),
    ],
)
def test_stage_1_agrees_with_the_engine(
    make_case: CaseMaker, regime: Regime, secure: bool, granule: int
) -> None:
    asked = successes = 0
    for seed in SEEDS:
        counts = compare(make_case(regime, granule, seed, secure=secure), secure)
        asked, successes = asked + counts[0], successes + counts[1]
    assert asked >= 900
    assert successes > asked // 8


@pytest.mark.sweep(first=True)
@needs_internal
@pytest.mark.parametrize("stage2_granule", [12, 14, 16])
@pytest.mark.parametrize("granule", [12, 14, 16])
def test_both_stages_agree_with_the_engine(
    make_case: CaseMaker, granule: int, stage2_granule: int
) -> None:
    asked = successes = 0
    for seed in SEEDS:
        counts = compare(make_case(Regime.EL10, granule, seed, stage2_granule=stage2_granule))
        asked, successes = asked + counts[0], successes + counts[1]
    assert asked >= 900
    assert successes > asked // 20


PAN = 1 << 22
_CURRENT = {
    (Regime.EL10, 0): 0x3C0,
    (Regime.EL10, 1): 0x3C5,
    (Regime.EL20, 0): 0x3C0,
    (Regime.EL20, 2): 0x3C9,
    (Regime.EL2, 2): 0x3C9,
    (Regime.EL3, 3): 0x3CD,
}
"""PSTATE of each Exception level that uses a regime."""


@pytest.mark.parametrize("granule", [12, 14, 16])
@pytest.mark.parametrize(("regime", "el"), list(_CURRENT))
def test_current_exception_level_agrees_with_the_public_call(
    make_case: CaseMaker, regime: Regime, el: int, granule: int
) -> None:
    index = dict(_PRIVILEGES[regime, False])[el]
    successes = 0
    for seed in SEEDS:
        case = make_case(regime, granule, seed)
        for va in case.addresses:
            for access, kind, _ in accesses(el, index):
                case.engine.set_pstate(_CURRENT[regime, el] | (PAN if access.pan else 0))
                case.engine.set(MAIR_EL1, MAIR)
                ours = full_translate(case.context, va, access, case.memory)
                theirs = case.engine.translate(va, kind)
                found = ours.paddress if isinstance(ours, AddressDescriptor) else None
                assert found == theirs, f"{va:#x} {access}\nours {ours}\nengine {theirs}"
                successes += found is not None
    assert successes > 100


@pytest.mark.parametrize("granule", [12, 16])
def test_both_stages_agree_with_the_public_call(make_case: CaseMaker, granule: int) -> None:
    successes = 0
    for seed in SEEDS:
        case = make_case(Regime.EL10, granule, seed, stage2_granule=granule)
        for va in case.addresses:
            for access, kind in ((acc_desc_gpr(1, read=True), READ), (acc_desc_ifetch(1), FETCH)):
                ours = full_translate(case.context, va, access, case.memory)
                found = ours.paddress if isinstance(ours, AddressDescriptor) else None
                assert found == case.engine.translate(va, kind)
                successes += found is not None
    assert successes > 50
