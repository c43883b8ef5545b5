"""Memory attributes of a page: decoded from its descriptor, and combined over both stages."""

from __future__ import annotations

from spe_unicorn.arch.memory.descriptors import (
    NORMAL_NC,
    AccessDescriptor,
    AccessType,
    MemoryAttributes,
    Shareability,
)
from spe_unicorn.arch.memory.regimes import TranslationContext
from spe_unicorn.arch.memory.walk_parameters import S1TTWParams, S2TTWParams


def s1_decode_memattrs(params: S1TTWParams, descriptor: int) -> MemoryAttributes:
    """S1DecodeMemAttrs(). The MAIR_ELx byte that AttrIndx selects."""
    attr = params.mair >> (descriptor >> 2 & 7) * 8 & 0xFF
    return _effective(attr, params.sh if params.ds else descriptor >> 8 & 3)


def s1_output_memattrs(
    context: TranslationContext, access: AccessDescriptor, memattrs: MemoryAttributes
) -> MemoryAttributes:
    """What SCTLR_ELx.{C,I} leave of the attributes; a fetch sees Device memory as Normal."""
    if access.acctype is AccessType.IFETCH:
        return memattrs if context.icache and not memattrs.is_device else NORMAL_NC
    return memattrs if context.dcache or memattrs.is_device else NORMAL_NC


def s2_decode_memattrs(params: S2TTWParams, descriptor: int) -> MemoryAttributes:
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


def s2_combine_s1_memattrs(s1: MemoryAttributes, s2: MemoryAttributes) -> MemoryAttributes:
    """S2CombineS1MemAttrs(). The stricter of two stages, in every respect."""
    if s1.is_device or s2.is_device:
        # The encodings of Device types grow with their freedom.
        attr = min(a.attr & 0xC for a in (s1, s2) if a.is_device)
    else:
        first = s1.cacheability
        outer = _combine_cacheability(first >> 4, s2.attr >> 4)
        attr = outer << 4 | _combine_cacheability(first & 0xF, s2.attr & 0xF)
        if attr == first:  # stage 2 leaves Write-Back memory its tags
            attr = s1.attr
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
