"""The VMSAv8-64 table walk: stage 1, stage 2, and what hardware writes back (Arm ARM D8, J1.1).

Functions bear the names of Arm's pseudocode and check in its order. A translation gives an
:class:`AddressDescriptor` or a :class:`FaultRecord`; nothing is raised. Three choices that the
architecture leaves open: the Contiguous bit is taken for 0, nT is ignored, and a fault leaves
the access flag as it was.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from spe_unicorn.arch.descriptors import (
    DEVICE_NGNRNE,
    NORMAL_NC,
    NORMAL_WB,
    NORMAL_WT_RA,
    AccessDescriptor,
    AccessType,
    AddressDescriptor,
    Fault,
    FaultRecord,
    MemoryAttributes,
    PASpace,
    Regime,
    Shareability,
)
from spe_unicorn.arch.ports import PhysicalMemory
from spe_unicorn.arch.regimes import S1TTWParams, S2TTWParams, TranslationContext, TTWParams

_AF = 1 << 10
_AP2 = 1 << 7
_S2AP0 = 1 << 6
_S2AP1 = 1 << 7
_DBM = 1 << 51
_BITS_47_0 = (1 << 48) - 1
_BITS_49_0 = (1 << 50) - 1

_TABLE_WALK = AccessDescriptor(AccessType.TTW, 1)
_TABLE_UPDATE = AccessDescriptor(AccessType.TTW, 1, read=True, write=True)


class Permissions(NamedTuple):
    """Permissions. What an access may do at one privilege."""

    r: bool
    w: bool
    x: bool


class TTWState(NamedTuple):
    """TTWState. Where a walk ended: the leaf, and what the tables above it said.

    ``table_bits`` is the union of bits 63:59 of the table descriptors. ``address`` is where the
    leaf lies: of an IPA, if stage 2 translates the walk. ``lsb`` is the leaf's size in address
    bits, ``output`` the address that it holds.
    """

    descriptor: int
    address: int
    level: int
    lsb: int
    output: int
    table_bits: int


def full_translate(
    context: TranslationContext,
    va: int,
    access: AccessDescriptor,
    memory: PhysicalMemory,
    aligned: bool = True,
) -> AddressDescriptor | FaultRecord:
    """AArch64.FullTranslate(). Translate ``va`` for ``access``, by both stages.

    ``aligned`` is False for an access that Device memory would refuse. Descriptors in memory are
    updated where the regime lets hardware manage the access flag or dirty state.
    """
    ipa = s1_translate(context, va, access, memory, aligned)
    if context.stage2 is None or isinstance(ipa, FaultRecord):
        return ipa
    return s2_translate(context, ipa, access, memory, aligned)


def s1_translate(
    context: TranslationContext,
    va: int,
    access: AccessDescriptor,
    memory: PhysicalMemory,
    aligned: bool = True,
) -> AddressDescriptor | FaultRecord:
    """AArch64.S1Translate(). ``va`` to an IPA, or to a PA where there is no stage 2."""
    params = context.lower
    if context.upper is not None and va >> 55 & 1:
        params = context.upper
    if not context.s1_enabled:
        return _s1_disabled_output(context, params, va, access, aligned)
    if (
        params.start_level is None
        or params.out_of_range(va, access.acctype)
        or (params.e0pd and access.el == 0)
        or params.epd
    ):
        return FaultRecord(Fault.Translation, 0, write=access.write)
    walk = _walk(params, va, access, memory, context if context.stage2 is not None else None)
    if isinstance(walk, FaultRecord):
        return walk
    descriptor, level = walk.descriptor, walk.level
    updates = access.acctype is not AccessType.SPE or context.vmsa.spe_flag_update
    ha = params.ha and updates
    if not (descriptor & _AF or ha):
        return FaultRecord(Fault.AccessFlag, level, write=access.write)
    memattrs = _s1_memattrs(params, descriptor)
    if not aligned and memattrs.attr < 0x10 and access.acctype is not AccessType.IFETCH:
        return FaultRecord(Fault.Alignment, level, write=access.write)
    paspace = _s1_output_space(context, descriptor, walk.table_bits)
    dirty = params.hd and updates and descriptor & _DBM and descriptor & _AP2
    effective = descriptor & ~_AP2 if dirty else descriptor
    permissions = _s1_permissions(context, params, effective, walk.table_bits, paspace, access)
    if (refused := _refused(permissions, access)) is not None:
        return FaultRecord(Fault.Permission, level, write=refused)
    if access.acctype is not AccessType.AT:
        new = descriptor | _AF if ha else descriptor
        if dirty and access.write:
            new &= ~_AP2
        if new != descriptor:
            stage2 = context if context.stage2 is not None else None
            fault = _update_descriptor(params, walk, new, access, memory, stage2)
            if fault is not None:
                return fault
    if access.acctype is AccessType.IFETCH:
        if memattrs.attr < 0x10 or not context.icache:
            memattrs = NORMAL_NC
    elif not context.dcache and memattrs.attr >= 0x10:
        memattrs = NORMAL_NC
    lsb = walk.lsb
    return AddressDescriptor(walk.output | va & (1 << lsb) - 1, paspace, memattrs, lsb, level)


def s2_translate(
    context: TranslationContext,
    ipa: AddressDescriptor,
    access: AccessDescriptor,
    memory: PhysicalMemory,
    aligned: bool = True,
) -> AddressDescriptor | FaultRecord:
    """AArch64.S2Translate(). An IPA, as stage 1 gave it, to a PA.

    Only for a context with a stage 2. The result holds for the smaller of the two stages' blocks
    and has the attributes of both combined.
    """
    address, ipa_space = ipa.paddress, ipa.paspace
    params = context.stage2
    if context.stage2_ns is not None and ipa_space is PASpace.NonSecure:
        params = context.stage2_ns
    assert params is not None
    s1ptw = access.acctype is AccessType.TTW

    def fault(kind: Fault, level: int, write: bool = access.write) -> FaultRecord:
        return FaultRecord(kind, level, True, s1ptw, address, ipa_space, write)

    if params.start_level is None or address >> params.iasize:
        return fault(Fault.Translation, 0)
    walk = _walk(params, address, access, memory, None)
    if isinstance(walk, FaultRecord):
        return fault(walk.kind, walk.level)
    descriptor, level = walk.descriptor, walk.level
    updates = access.acctype is not AccessType.SPE or context.vmsa.spe_flag_update
    ha = params.ha and updates
    if not (descriptor & _AF or ha):
        return fault(Fault.AccessFlag, level)
    s2attrs = _s2_memattrs(params, descriptor)
    memattrs = _combine(ipa.memattrs, s2attrs)
    if not aligned and memattrs.attr < 0x10 and access.acctype is not AccessType.IFETCH:
        return fault(Fault.Alignment, level)
    if s1ptw and params.ptw and s2attrs.attr < 0x10:
        return fault(Fault.Permission, level)
    dirty = params.hd and updates and descriptor & _DBM and not descriptor & _S2AP1
    effective = descriptor | _S2AP1 if dirty else descriptor
    paspace = params.paspace
    if context.paspace is PASpace.Realm and descriptor >> 55 & 1:
        paspace = PASpace.NonSecure
    permissions = _s2_permissions(context, params, effective, paspace, access)
    if (refused := _refused(permissions, access)) is not None:
        return fault(Fault.Permission, level, refused)
    if access.acctype is not AccessType.AT:
        new = descriptor | _AF if ha else descriptor
        if dirty and access.write:
            new |= _S2AP1
        if new != descriptor:
            failed = _update_descriptor(params, walk, new, access, memory, None)
            if failed is not None:
                return fault(failed.kind, failed.level)
    return AddressDescriptor(
        walk.output | address & (1 << walk.lsb) - 1,
        paspace,
        memattrs,
        min(walk.lsb, ipa.page_size_log2),
        ipa.level if context.s1_enabled else level,
    )


def _walk(
    params: TTWParams,
    ia: int,
    access: AccessDescriptor,
    memory: PhysicalMemory,
    nested: TranslationContext | None,
) -> TTWState | FaultRecord:
    """AArch64.S1Walk() and AArch64.S2Walk(), up to and including the leaf's output address.

    ``nested`` is the context whose stage 2 translates the descriptors' addresses, if any.
    """
    level = params.start_level
    assert level is not None
    granule, stride, oasize = params.granule, params.stride, params.oasize
    lsb = (3 - level) * stride + granule
    base = params.base
    if base >> oasize:
        return FaultRecord(Fault.AddressSize, 0, write=access.write)
    byteorder: Literal["little", "big"] = "big" if params.ee else "little"
    index_mask = (1 << params.iasize - lsb) - 1
    table_mask = (1 << stride) - 1
    table_bits = 0
    while True:
        address = base | (ia >> lsb & index_mask) << 3
        if nested is None:
            data = memory.read(address, 8)
        else:
            where = _walk_address(nested, address, _TABLE_WALK, memory)
            if isinstance(where, FaultRecord):
                return where._replace(write=access.write)
            data = memory.read(where.paddress, 8)
        if data is None:
            return FaultRecord(Fault.SyncExternalOnWalk, level, write=access.write)
        descriptor = int.from_bytes(data, byteorder)
        if not descriptor & 1:
            return FaultRecord(Fault.Translation, level, write=access.write)
        if level == 3 or not descriptor & 2:
            break
        base = _output_address(params, descriptor, granule)
        if base >> oasize:
            return FaultRecord(Fault.AddressSize, level, write=access.write)
        table_bits |= descriptor
        level += 1
        lsb -= stride
        index_mask = table_mask
    is_page = descriptor & 2 != 0
    if is_page != (level == 3) or level < params.first_block_level:
        return FaultRecord(Fault.Translation, level, write=access.write)
    output = _output_address(params, descriptor, lsb)
    if output >> oasize:
        return FaultRecord(Fault.AddressSize, level, write=access.write)
    return TTWState(descriptor, address, level, lsb, output, table_bits)


def _output_address(params: TTWParams, descriptor: int, lsb: int) -> int:
    """AArch64.LeafBase() and AArch64.NextTableBase(). The address in a descriptor."""
    if params.ds:
        output = descriptor & _BITS_49_0 | (descriptor >> 8 & 3) << 50
    elif params.lpa:
        output = descriptor & _BITS_47_0 | (descriptor >> 12 & 0xF) << 48
    else:
        output = descriptor & _BITS_47_0
    return output >> lsb << lsb


def _walk_address(
    context: TranslationContext, address: int, access: AccessDescriptor, memory: PhysicalMemory
) -> AddressDescriptor | FaultRecord:
    """Stage 2 translation of a stage 1 descriptor's address."""
    ipa = AddressDescriptor(address, context.paspace, NORMAL_WB, 64, 0)
    return s2_translate(context, ipa, access, memory)


def _update_descriptor(
    params: TTWParams,
    walk: TTWState,
    new: int,
    access: AccessDescriptor,
    memory: PhysicalMemory,
    nested: TranslationContext | None,
) -> FaultRecord | None:
    """AArch64.MemSwapTableDesc(). Write the leaf back; a fault if that fails.

    Nothing runs between the walk and this write, so there is no compare and no second walk.
    """
    address = walk.address
    if nested is not None:
        where = _walk_address(nested, address, _TABLE_UPDATE, memory)
        if isinstance(where, FaultRecord):
            return where._replace(write=access.write)
        address = where.paddress
    if memory.write(address, new.to_bytes(8, "big" if params.ee else "little")):
        return None
    return FaultRecord(Fault.SyncExternalOnWalk, walk.level, write=access.write)


def _s1_disabled_output(
    context: TranslationContext,
    params: S1TTWParams,
    va: int,
    access: AccessDescriptor,
    aligned: bool,
) -> AddressDescriptor | FaultRecord:
    """AArch64.S1DisabledOutput(). The address as it is, if it is an address at all."""
    pa_bits = context.vmsa.pa_bits
    # Bits of a physical pointer above OAMax may fault or be ignored: they fault, tag or not.
    top = 63 if context.nvm is not None else params.addr_top(access.acctype)
    if (va & (2 << top) - 1) >> pa_bits:
        return FaultRecord(Fault.AddressSize, 0, write=access.write)
    if context.dc:
        memattrs = NORMAL_WB
    elif context.nvm is not None:
        memattrs = context.nvm
    elif access.acctype is AccessType.IFETCH:
        memattrs = NORMAL_WT_RA if context.icache else NORMAL_NC
    else:
        memattrs = DEVICE_NGNRNE
    if not aligned and memattrs.is_device and access.acctype is not AccessType.IFETCH:
        return FaultRecord(Fault.Alignment, 0, write=access.write)
    address = va & (1 << pa_bits) - 1
    return AddressDescriptor(address, context.paspace, memattrs, pa_bits, 0)


def _s1_permissions(
    context: TranslationContext,
    params: S1TTWParams,
    descriptor: int,
    table_bits: int,
    paspace: PASpace,
    access: AccessDescriptor,
) -> Permissions:
    """AArch64.S1DirectBasePermissions(). AP, APTable, XN and the controls over them."""
    ap1, read_only = descriptor >> 6 & 1, descriptor >> 7 & 1
    pxn, uxn = descriptor >> 53 & 1, descriptor >> 54 & 1
    if params.nv1:
        ap1, pxn, uxn = 0, uxn, 0
    if not params.hpd:
        table_uxn, table_pxn = table_bits >> 60 & 1, table_bits >> 59 & 1
        if params.nv1:
            table_uxn, table_pxn = 0, table_uxn
        if table_bits >> 61 & 1:
            ap1 = 0
        read_only |= table_bits >> 62 & 1
        uxn |= table_uxn
        pxn |= table_pxn
    if not context.regime.has_unprivileged:
        r, w, x = True, not read_only, not uxn
    elif access.el == 0:
        r, w, x = bool(ap1), bool(ap1 and not read_only), not uxn
    else:
        # What EL0 can write, no higher level executes.
        r, w, x = True, not read_only, not (pxn or (ap1 and not read_only))
        if access.pan and not params.nv1 and (ap1 or (params.epan and not uxn)):
            r = w = False
    if (params.wxn and w) or _fetch_leaves_space(context, paspace):
        x = False
    return Permissions(r, w, x)


def _fetch_leaves_space(context: TranslationContext, paspace: PASpace) -> bool:
    """Whether a page's PA space alone forbids to execute it."""
    if context.paspace is PASpace.Secure:
        return context.sif and paspace is not PASpace.Secure
    if context.paspace is PASpace.NonSecure:
        return False
    return paspace is not context.paspace


def _s1_output_space(context: TranslationContext, descriptor: int, table_bits: int) -> PASpace:
    """AArch64.S1NextWalkStateLast(). The address space that the leaf's NS and NSE bits select."""
    ns, space = descriptor >> 5 & 1, context.paspace
    if space is PASpace.NonSecure:
        return space
    if space is PASpace.Root:
        return PASpace((descriptor >> 11 & 1) << 1 | ns)
    if space is PASpace.Secure:
        return PASpace.NonSecure if ns or table_bits >> 63 & 1 else space
    return PASpace.NonSecure if ns and context.regime is not Regime.EL10 else space


def _s2_permissions(
    context: TranslationContext,
    params: S2TTWParams,
    descriptor: int,
    paspace: PASpace,
    access: AccessDescriptor,
) -> Permissions:
    """AArch64.S2DirectBasePermissions(). S2AP and XN; an executable page need not be readable."""
    xn = descriptor >> 53 & 3
    if not params.xnx:
        never = xn & 2 != 0
    elif access.el == 0:
        never = xn in (2, 3)
    else:
        never = xn in (1, 2)
    if context.paspace is PASpace.Realm and paspace is PASpace.NonSecure:
        never = True
    return Permissions(bool(descriptor & _S2AP0), bool(descriptor & _S2AP1), not never)


def _refused(permissions: Permissions, access: AccessDescriptor) -> bool | None:
    """Whether a permission is missing: None if not, else whether it is the one to write."""
    if access.acctype is AccessType.IFETCH:
        return None if permissions.x else False
    if access.read and not permissions.r:
        return False
    if access.write and not permissions.w:
        return True
    return None


def _s1_memattrs(params: S1TTWParams, descriptor: int) -> MemoryAttributes:
    """S1DecodeMemAttrs(). The MAIR_ELx byte that AttrIndx selects."""
    attr = params.mair >> (descriptor >> 2 & 7) * 8 & 0xFF
    return _effective(attr, params.sh if params.ds else descriptor >> 8 & 3)


def _s2_memattrs(params: S2TTWParams, descriptor: int) -> MemoryAttributes:
    """S2DecodeMemAttrs(). MemAttr as the MAIR_ELx byte that means the same."""
    outer, inner = descriptor >> 4 & 3, descriptor >> 2 & 3
    attr = _S2_CACHEABILITY[outer] << 4 | _S2_CACHEABILITY[inner] if outer else inner << 2
    return _effective(attr, params.sh if params.ds else descriptor >> 8 & 3)


_S2_CACHEABILITY = (0x4, 0x4, 0xB, 0xF)
"""MemAttr's two bits as in MAIR_ELx: (reserved), Non-cacheable, Write-Through, Write-Back."""


def _effective(attr: int, sh: int) -> MemoryAttributes:
    """EffectiveShareability(). What no cache holds is Outer Shareable, whatever SH says."""
    if attr < 0x10 or attr == 0x44:
        sh = Shareability.OSH
    return MemoryAttributes(attr, sh)


def _combine(s1: MemoryAttributes, s2: MemoryAttributes) -> MemoryAttributes:
    """S2CombineS1MemAttrs(). The stricter of two stages, in every respect."""
    if s1.is_device or s2.is_device:
        # The encodings of Device types grow with their freedom.
        attr = min(a.attr & 0xC for a in (s1, s2) if a.is_device)
    else:
        outer = _combine_cacheability(s1.attr >> 4, s2.attr >> 4)
        attr = outer << 4 | _combine_cacheability(s1.attr & 0xF, s2.attr & 0xF)
    both = (s1.sh, s2.sh)
    for sh in (Shareability.OSH, Shareability.ISH, Shareability.NSH):
        if sh in both:
            break
    return _effective(attr, sh)


def _combine_cacheability(s1: int, s2: int) -> int:
    """S2CombineS1AttrHints(). Allocation hints come from stage 1."""
    if s1 == 0x4 or s2 == 0x4:
        return 0x4
    # Write-Through for a Write-Back nibble is bit 2 cleared, transient or not.
    return s1 & ~0x4 if s2 == 0xB else s1
