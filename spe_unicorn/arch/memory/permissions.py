"""Who may do what with a page, and in which address space it lies: from descriptor to verdict."""

from __future__ import annotations

from typing import NamedTuple

from spe_unicorn.arch.memory.descriptors import AccessDescriptor, AccessType, Regime
from spe_unicorn.arch.memory.regimes import TranslationContext
from spe_unicorn.arch.memory.walk_parameters import S1TTWParams, S2TTWParams
from spe_unicorn.arch.spaces import PASpace

_S2AP0 = 1 << 6
_S2AP1 = 1 << 7


class Permissions(NamedTuple):
    """Permissions. What an access may do at one privilege."""

    r: bool
    w: bool
    x: bool


def s1_permissions(
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


def s1_output_space(context: TranslationContext, descriptor: int, table_bits: int) -> PASpace:
    """AArch64.S1NextWalkStateLast(). The address space that the leaf's NS and NSE bits select."""
    ns, space = descriptor >> 5 & 1, context.paspace
    if space is PASpace.NonSecure:
        return space
    if space is PASpace.Root:
        return PASpace((descriptor >> 11 & 1) << 1 | ns)
    if space is PASpace.Secure:
        return PASpace.NonSecure if ns or table_bits >> 63 & 1 else space
    return PASpace.NonSecure if ns and context.regime is not Regime.EL10 else space


def s2_permissions(
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


def refused(permissions: Permissions, access: AccessDescriptor) -> bool | None:
    """Whether a permission is missing: None if not, else whether it is the one to write."""
    if access.acctype is AccessType.IFETCH:
        return None if permissions.x else False
    if access.read and not permissions.r:
        return False
    if access.write and not permissions.w:
        return True
    return None
