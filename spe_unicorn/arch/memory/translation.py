"""The VMSAv8-64 table walk: stage 1, stage 2, and what hardware writes back (Arm ARM D8, J1.1).

Functions bear the names of Arm's pseudocode and check in its order. A translation gives an
:class:`AddressDescriptor` or a :class:`FaultRecord`; nothing is raised. Three choices that the
architecture leaves open: the Contiguous bit is taken for 0, nT is ignored, and a fault leaves
the access flag as it was.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from spe_unicorn.arch.memory.descriptors import (
    DEVICE_NGNRNE,
    NORMAL_NC,
    NORMAL_WB,
    NORMAL_WT_RA,
    TAGGED_WB,
    AccessDescriptor,
    AccessType,
    AddressDescriptor,
    Fault,
    FaultRecord,
)
from spe_unicorn.arch.memory.memory_attributes import (
    s1_decode_memattrs,
    s1_output_memattrs,
    s2_combine_s1_memattrs,
    s2_decode_memattrs,
)
from spe_unicorn.arch.memory.permissions import (
    refused,
    s1_output_space,
    s1_permissions,
    s2_permissions,
)
from spe_unicorn.arch.memory.regimes import TranslationContext
from spe_unicorn.arch.memory.walk_parameters import S1TTWParams, TTWParams
from spe_unicorn.arch.ports import PhysicalMemory
from spe_unicorn.arch.spaces import PASpace

_AF = 1 << 10
_AP2 = 1 << 7
_S2AP1 = 1 << 7
_DBM = 1 << 51
_NS_TABLE = 1 << 63
_BITS_47_0 = (1 << 48) - 1
_BITS_49_0 = (1 << 50) - 1

_TABLE_WALK = AccessDescriptor(AccessType.TTW, 1)
_TABLE_UPDATE = AccessDescriptor(AccessType.TTW, 1, read=True, write=True)


class TTWState(NamedTuple):
    """TTWState. Where a walk ended: the leaf, and what the tables above it said.

    ``table_bits`` is the union of bits 63:59 of the table descriptors. ``address`` is where the
    leaf lies in ``space``: of an IPA, if stage 2 translates the walk. ``lsb`` is the leaf's size in
    address bits, ``output`` the address that it holds.
    """

    descriptor: int
    address: int
    space: PASpace
    level: int
    lsb: int
    output: int
    table_bits: int


def full_translate(
    context: TranslationContext,
    va: int,
    access: AccessDescriptor,
    memory: PhysicalMemory,
    *,
    aligned: bool = True,
) -> AddressDescriptor | FaultRecord:
    """AArch64.FullTranslate(). Translate ``va`` for ``access``, by both stages.

    ``aligned`` is False for an access that Device memory would refuse. Descriptors in memory are
    updated where the regime lets hardware manage the access flag or dirty state.
    """
    ipa = s1_translate(context, va, access, memory, aligned=aligned)
    if context.stage2 is None or isinstance(ipa, FaultRecord):
        return ipa
    return s2_translate(context, ipa, access, memory, aligned=aligned)


def s1_translate(
    context: TranslationContext,
    va: int,
    access: AccessDescriptor,
    memory: PhysicalMemory,
    *,
    aligned: bool = True,
) -> AddressDescriptor | FaultRecord:
    """AArch64.S1Translate(). ``va`` to an IPA, or to a PA where there is no stage 2."""
    params = context.lower
    if context.upper is not None and va >> 55 & 1:
        params = context.upper
    if not context.s1_enabled:
        return _s1_disabled_output(context, params, va, access, aligned=aligned)
    e0pd = params.e0pd and access.el == 0
    if params.out_of_range(va, access.acctype) or e0pd or params.epd:
        return FaultRecord(Fault.Translation, 0, write=access.write)
    nested = context if context.stage2 is not None else None
    walk = _walk(params, va, access, memory, context.paspace, nested)
    if isinstance(walk, FaultRecord):
        return walk
    descriptor, level = walk.descriptor, walk.level
    updates = access.acctype is not AccessType.SPE or context.vmsa.spe_flag_update
    ha = params.ha and updates
    if not (descriptor & _AF or ha):
        return FaultRecord(Fault.AccessFlag, level, write=access.write)
    memattrs = s1_decode_memattrs(params, descriptor)
    if not aligned and memattrs.is_device and access.acctype is not AccessType.IFETCH:
        return FaultRecord(Fault.Alignment, level, write=access.write)
    paspace = s1_output_space(context, descriptor, walk.table_bits)
    dirty = params.hd and updates and descriptor & _DBM and descriptor & _AP2
    effective = descriptor & ~_AP2 if dirty else descriptor
    permissions = s1_permissions(context, params, effective, walk.table_bits, paspace, access)
    if (wrong := refused(permissions, access)) is not None:
        return FaultRecord(Fault.Permission, level, write=wrong)
    if ha:
        new = (effective if access.write else descriptor) | _AF
        fault = _update_descriptor(params, walk, new, access, memory, nested)
        if fault is not None:
            return fault
    return AddressDescriptor(
        walk.output | va & (1 << walk.lsb) - 1,
        paspace,
        s1_output_memattrs(context, access, memattrs),
        walk.lsb,
        level,
    )


def s2_translate(
    context: TranslationContext,
    ipa: AddressDescriptor,
    access: AccessDescriptor,
    memory: PhysicalMemory,
    *,
    aligned: bool = True,
) -> AddressDescriptor | FaultRecord:
    """AArch64.S2Translate(). An IPA, as stage 1 gave it, to a PA.

    The result holds for the smaller of the two stages' blocks and has the attributes of both
    combined. Raises ValueError for a context without a stage 2.
    """
    address, ipa_space = ipa.paddress, ipa.paspace
    params = context.stage2
    if context.stage2_ns is not None and ipa_space is PASpace.NonSecure:
        params = context.stage2_ns
    if params is None:
        raise ValueError(f"IPA {address:#x} has no stage 2: the context translates in stage 1 only")
    s1ptw = access.acctype is AccessType.TTW

    def fault(kind: Fault, level: int, *, write: bool = access.write) -> FaultRecord:
        return FaultRecord(kind, level, True, s1ptw, address, ipa_space, write)

    if address >> params.iasize:
        return fault(Fault.Translation, 0)
    walk = _walk(params, address, access, memory, params.tables, None)
    if isinstance(walk, FaultRecord):
        return fault(walk.kind, walk.level)
    descriptor, level = walk.descriptor, walk.level
    updates = access.acctype is not AccessType.SPE or context.vmsa.spe_flag_update
    ha = params.ha and updates
    if not (descriptor & _AF or ha):
        return fault(Fault.AccessFlag, level)
    s2attrs = s2_decode_memattrs(params, descriptor)
    memattrs = s2_combine_s1_memattrs(ipa.memattrs, s2attrs)
    if not aligned and memattrs.is_device and access.acctype is not AccessType.IFETCH:
        return fault(Fault.Alignment, level)
    paspace = params.paspace
    if context.paspace is PASpace.Realm and descriptor >> 55 & 1:
        paspace = PASpace.NonSecure
    # Tables in Device memory (if HCR_EL2.PTW says so) or outside the Realm are out of reach.
    leaves_realm = context.paspace is PASpace.Realm and paspace is not PASpace.Realm
    if s1ptw and ((params.ptw and s2attrs.is_device) or leaves_realm):
        return fault(Fault.Permission, level)
    dirty = params.hd and updates and descriptor & _DBM and not descriptor & _S2AP1
    effective = descriptor | _S2AP1 if dirty else descriptor
    permissions = s2_permissions(context, params, effective, paspace, access)
    if (wrong := refused(permissions, access)) is not None:
        return fault(Fault.Permission, level, write=wrong)
    if ha:
        new = (effective if access.write else descriptor) | _AF
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
    space: PASpace,
    nested: TranslationContext | None,
) -> TTWState | FaultRecord:
    """AArch64.S1Walk() and AArch64.S2Walk(), up to and including the leaf's output address.

    ``space`` is where the first table lies, ``nested`` the context whose stage 2 translates the
    descriptors' addresses, if any.
    """
    level = params.start_level
    if level is None:
        return FaultRecord(Fault.Translation, 0, write=access.write)
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
            data = memory.read(address, 8, space)
        else:
            where = _walk_address(nested, address, space, _TABLE_WALK, memory)
            if isinstance(where, FaultRecord):
                return where._replace(write=access.write)
            data = memory.read(where.paddress, 8, where.paspace)
        if data is None:
            return FaultRecord(Fault.SyncExternalOnWalk, level, write=access.write)
        descriptor = int.from_bytes(data, byteorder)
        if not descriptor & 1:
            return FaultRecord(Fault.Translation, level, write=access.write)
        if level == 3 or not descriptor & 2:
            break
        base = output_address(params, descriptor, granule)
        if base >> oasize:
            return FaultRecord(Fault.AddressSize, level, write=access.write)
        table_bits |= descriptor
        if table_bits & _NS_TABLE and space is PASpace.Secure:
            space = PASpace.NonSecure
        level += 1
        lsb -= stride
        index_mask = table_mask
    is_page = descriptor & 2 != 0
    if is_page != (level == 3) or level < params.first_block_level:
        return FaultRecord(Fault.Translation, level, write=access.write)
    output = output_address(params, descriptor, lsb)
    if output >> oasize:
        return FaultRecord(Fault.AddressSize, level, write=access.write)
    return TTWState(descriptor, address, space, level, lsb, output, table_bits)


def output_address(params: TTWParams, descriptor: int, lsb: int) -> int:
    """AArch64.LeafBase() and AArch64.NextTableBase(). The address in a descriptor."""
    if params.ds:
        output = descriptor & _BITS_49_0 | (descriptor >> 8 & 3) << 50
    elif params.lpa:
        output = descriptor & _BITS_47_0 | (descriptor >> 12 & 0xF) << 48
    else:
        output = descriptor & _BITS_47_0
    return output >> lsb << lsb


def _walk_address(
    context: TranslationContext,
    address: int,
    space: PASpace,
    access: AccessDescriptor,
    memory: PhysicalMemory,
) -> AddressDescriptor | FaultRecord:
    """Stage 2 translation of a stage 1 descriptor's address."""
    ipa = AddressDescriptor(address, space, NORMAL_WB, 64, 0)
    return s2_translate(context, ipa, access, memory)


def _update_descriptor(
    params: TTWParams,
    walk: TTWState,
    new: int,
    access: AccessDescriptor,
    memory: PhysicalMemory,
    nested: TranslationContext | None,
) -> FaultRecord | None:
    """AArch64.MemSwapTableDesc(). Write the leaf back if it changed; a fault if that fails.

    Nothing runs between the walk and this write, so there is no compare and no second walk. An AT
    instruction changes nothing.
    """
    if new == walk.descriptor or access.acctype is AccessType.AT:
        return None
    address, space = walk.address, walk.space
    if nested is not None:
        where = _walk_address(nested, address, space, _TABLE_UPDATE, memory)
        if isinstance(where, FaultRecord):
            return where._replace(write=access.write)
        address, space = where.paddress, where.paspace
    if memory.write(address, new.to_bytes(8, "big" if params.ee else "little"), space):
        return None
    return FaultRecord(Fault.SyncExternalOnWalk, walk.level, write=access.write)


def _s1_disabled_output(
    context: TranslationContext,
    params: S1TTWParams,
    va: int,
    access: AccessDescriptor,
    *,
    aligned: bool,
) -> AddressDescriptor | FaultRecord:
    """AArch64.S1DisabledOutput(). The address as it is, if it is an address at all."""
    pa_bits = context.vmsa.pa_bits
    # Bits of a physical pointer above OAMax may fault or be ignored: they fault, tag or not.
    top = 63 if context.nvm is not None else params.addr_top(access.acctype)
    if (va & (2 << top) - 1) >> pa_bits:
        return FaultRecord(Fault.AddressSize, 0, write=access.write)
    if context.dc:
        memattrs = TAGGED_WB if context.dct else NORMAL_WB
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
