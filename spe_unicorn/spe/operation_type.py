"""What an instruction is to the profiler, by its word alone: packet payload and filter flags.

Arm ARM D18.2.7 (Operation Type packet) and D17.5 (type filter). Depends on the features of the
core and on nothing that happens when the instruction runs, so it is worked out once for a word.
"""

from __future__ import annotations

from dataclasses import dataclass

from spe_unicorn.arch.features import Feature, Features
from spe_unicorn.arch.operation import Family, Instruction, RegisterKind
from spe_unicorn.spe.filter import Flag
from spe_unicorn.spe.packets import OperationClass
from spe_unicorn.spe.record import operation_type_value

_MEMORY_FLAGS = {
    Family.LOAD: Flag.LD,
    Family.STORE: Flag.ST,
    Family.ATOMIC: Flag.LD | Flag.ST,
    Family.ATOMIC_STORE: Flag.ST,
}
_TAGGED = frozenset({Feature.FEAT_MTE, Feature.FEAT_MTE2})
_READS = frozenset({Family.LOAD, Family.ATOMIC})

_CR_LINK = 0b01 << 3
_CR_RETURN = 0b10 << 3
_CR_NEITHER = 0b11 << 3


@dataclass(frozen=True, slots=True)
class OperationType:
    """The class and payload of the Operation Type packet, and the flags of the type filter.

    ``packet`` is the packet as a record takes it (:func:`operation_type_value`). ``flags`` is a
    combination of :class:`Flag`, as a plain number. ``memory`` says that the operation makes data
    accesses that are profiled.
    """

    op_class: OperationClass
    payload: int
    packet: int
    flags: int
    memory: bool


def _type(op_class: OperationClass, payload: int, flags: Flag) -> OperationType:
    return OperationType(
        op_class,
        payload,
        operation_type_value(op_class, payload),
        int(flags),
        memory=op_class is OperationClass.LOAD_STORE,
    )


def operation_type(
    instruction: Instruction, features: Features, vector_bits: int = 128
) -> OperationType:
    """The type of ``instruction`` on a core with ``features``.

    ``vector_bits`` is the SVE vector length. Raises ValueError for one that is no vector length.
    """
    if instruction.family is Family.BRANCH:
        return _branch(instruction, features)
    if instruction.family is Family.OTHER:
        return _other(instruction, features, vector_bits)
    return _load_store(instruction, features, vector_bits)


def effective_vector_length(bits: int) -> int:
    """EVL, the field for a vector of ``bits``: its size rounded up to 32 << EVL.

    Raises ValueError for a vector below 32 or above 2048 bits.
    """
    if not 32 <= bits <= 2048:
        raise ValueError(f"a vector has 32 to 2048 bits, got {bits}")
    return (bits - 1).bit_length() - 5


def _branch(instruction: Instruction, features: Features) -> OperationType:
    payload = int(instruction.conditional) | instruction.indirect << 1
    if Feature.FEAT_SPE_CRR in features:
        if instruction.link:
            payload |= _CR_LINK
        elif instruction.procedure_return:
            payload |= _CR_RETURN
        else:
            payload |= _CR_NEITHER
    return _type(OperationClass.BRANCH, payload, Flag.B)


def _other(instruction: Instruction, features: Features, vector_bits: int) -> OperationType:
    flags = Flag.NONE
    if instruction.fp:
        flags |= Flag.FP
    if instruction.simd or instruction.sve:
        flags |= Flag.SIMD
    if instruction.sve and Feature.FEAT_SPEv1p1 in features:
        evl = effective_vector_length(vector_bits)
        payload = evl << 4 | 1 << 3 | instruction.predicated << 2 | instruction.fp << 1
    else:
        payload = int(instruction.conditional)
        if Feature.FEAT_SPE_FPF in features:
            payload |= instruction.simd << 2 | instruction.fp << 1
    return _type(OperationClass.OTHER, payload, flags)


def _load_store(instruction: Instruction, features: Features, vector_bits: int) -> OperationType:
    family = instruction.family
    flags = _MEMORY_FLAGS[family]
    atomic = instruction.atomic or family in (Family.ATOMIC, Family.ATOMIC_STORE)
    if instruction.acquire_release or instruction.exclusive or atomic:
        payload = instruction.acquire_release << 4 | instruction.exclusive << 3 | atomic << 2 | 0x02
    elif instruction.registers is RegisterKind.SVE:
        flags |= Flag.SIMD
        payload = _sve_access(instruction, features, vector_bits)
    elif instruction.registers is RegisterKind.SIMD_FP:
        flags |= Flag.FP if instruction.scalar else Flag.SIMD
        payload = 0x04
    else:
        payload = _other_access(instruction.registers, features)
    return _type(OperationClass.LOAD_STORE, payload | (family not in _READS), flags)


def _sve_access(instruction: Instruction, features: Features, vector_bits: int) -> int:
    if Feature.FEAT_SPEv1p1 not in features:
        return 0x04
    # A load says that it is predicated from SPEv1p2 on, a store always did.
    store = instruction.family not in _READS
    predicated = instruction.predicated and (store or Feature.FEAT_SPEv1p2 in features)
    evl = effective_vector_length(vector_bits)
    return instruction.gather_scatter << 7 | evl << 4 | 1 << 3 | predicated << 2


def _other_access(registers: RegisterKind, features: Features) -> int:
    """The payload, bit 0 aside, of an access that is neither SVE nor SIMD&FP, nor special."""
    if registers is RegisterKind.NESTED:
        return 0x30
    v1p3 = Feature.FEAT_SPEv1p3 in features
    if registers is RegisterKind.TAG and v1p3 and _TAGGED & features:
        return 0x14
    if registers is RegisterKind.COPY and v1p3:
        return 0x20
    if registers is RegisterKind.SET and v1p3:
        return 0x24
    if registers is RegisterKind.GCS and Feature.FEAT_SPEv1p4 in features:
        return 0x44
    if registers is RegisterKind.GENERAL or Feature.FEAT_SPEv1p1 not in features:
        return 0x00
    return 0x10  # unspecified registers
