"""Advanced SIMD, scalar FP and cryptography (Arm ARM C4.1.97), without what is carried out here."""

from __future__ import annotations

from typing import Final

from spe_unicorn.instructions.known.rows import Known, table

ROWS: Final[tuple[Known, ...]] = table("""
# cryptography
0100 1110 0010 1000 01xx 10nn nnnd dddd AES AESE, AESD, AESMC, AESIMC
0x00 1110 111m mmmm 1110 00nn nnnd dddd PMULL PMULL (64 bits)
0101 1110 000m mmmm 00xx 00nn nnnd dddd SHA1 SHA1C, SHA1M, SHA1P, SHA1SU0
0101 1110 0010 1000 0000 10nn nnnd dddd SHA1 SHA1H
0101 1110 0010 1000 0001 10nn nnnd dddd SHA1 SHA1SU1
0101 1110 000m mmmm 010x 00nn nnnd dddd SHA256 SHA256H
0101 1110 000m mmmm 0110 00nn nnnd dddd SHA256 SHA256SU1
0101 1110 0010 1000 0010 10nn nnnd dddd SHA256 SHA256SU0
1100 1110 011m mmmm 1000 0xnn nnnd dddd SHA512 SHA512H
1100 1110 011m mmmm 1000 10nn nnnd dddd SHA512 SHA512SU1
1100 1110 1100 0000 1000 00nn nnnd dddd SHA512 SHA512SU0
1100 1110 011m mmmm 1000 11nn nnnd dddd SHA3 RAX1
1100 1110 000m mmmm 0aaa aann nnnd dddd SHA3 EOR3
1100 1110 001m mmmm 0aaa aann nnnd dddd SHA3 BCAX
1100 1110 100m mmmm iiii iinn nnnd dddd SHA3 XAR
1100 1110 010m mmmm 0aaa aann nnnd dddd SM3 SM3SS1
1100 1110 010m mmmm 10ii xxnn nnnd dddd SM3 SM3TT
1100 1110 011m mmmm 1100 0xnn nnnd dddd SM3 SM3PARTW
1100 1110 011m mmmm 1100 10nn nnnd dddd SM4 SM4EKEY
1100 1110 1100 0000 1000 01nn nnnd dddd SM4 SM4E
# multiplications that round, dot products, complex numbers, half times half
0x10 1110 xx0m mmmm 1000 x1nn nnnd dddd RDM SQRDMLAH, SQRDMLSH (vector)
0111 1110 xx0m mmmm 1000 x1nn nnnd dddd RDM SQRDMLAH, SQRDMLSH (scalar)
0x10 1111 xxmm mmmm 11x1 x0nn nnnd dddd RDM SQRDMLAH, SQRDMLSH (by element)
0111 1111 xxmm mmmm 11x1 x0nn nnnd dddd RDM SQRDMLAH, SQRDMLSH (scalar, by element)
0xx0 1110 100m mmmm 1001 01nn nnnd dddd DotProd SDOT, UDOT (vector)
0xx0 1111 10mm mmmm 1110 x0nn nnnd dddd DotProd SDOT, UDOT (by element)
0x10 1110 xx0m mmmm 110i i1nn nnnd dddd FCMA FCMLA
0x10 1110 xx0m mmmm 111i 01nn nnnd dddd FCMA FCADD
0x10 1111 xxmm mmmm 0ii1 x0nn nnnd dddd FCMA FCMLA (by element)
0x00 1110 x01m mmmm 1110 11nn nnnd dddd FHM FMLAL, FMLSL
0x10 1110 x01m mmmm 1100 11nn nnnd dddd FHM FMLAL2, FMLSL2
0x00 1111 10mm mmmm 0x00 x0nn nnnd dddd FHM FMLAL, FMLSL (by element)
0x10 1111 10mm mmmm 1x00 x0nn nnnd dddd FHM FMLAL2, FMLSL2 (by element)
# rounding and conversion
0001 1110 0x10 100x x100 00nn nnnd dddd FRINTTS FRINT32, FRINT64
0xx0 1110 0x10 0001 111x 10nn nnnd dddd FRINTTS FRINT32, FRINT64 (vector)
0001 1110 0111 1110 0000 00nn nnnd dddd JSCVT FJCVTZS
# extrema of magnitudes
0xx0 1110 110m mmmm 0001 11nn nnnd dddd FAMINMAX FAMAX, FAMIN (half-precision)
0xx0 1110 1x1m mmmm 1101 11nn nnnd dddd FAMINMAX FAMAX, FAMIN
# half-precision, but for what converts it, which Armv8.0 has
0001 1110 1110 0010 0100 00nn nnnd dddd - FCVT
0001 1110 1110 0010 1100 00nn nnnd dddd - FCVT
x001 1110 110x xxxx xxxx xxnn nnnd dddd FP16 FCVTZS, SCVTF (fixed-point)
x001 1110 111x xxxx xxxx xxnn nnnd dddd FP16 operations on half-precision scalars
0001 1111 11xm mmmm xaaa aann nnnd dddd FP16 FMADD and its like
0xx0 1110 x10m mmmm 00xx x1nn nnnd dddd FP16 operations on half-precision vectors
01x1 1110 x10m mmmm 00xx x1nn nnnd dddd FP16 operations on half-precision scalars
0xx0 1110 x111 100x xxxx 10nn nnnd dddd FP16 operations on half-precision vectors
01x1 1110 x111 100x xxxx 10nn nnnd dddd FP16 operations on half-precision scalars
0x00 1110 x011 0000 11xx 10nn nnnd dddd FP16 FMAXV and its like
0101 1110 x011 0000 11xx 10nn nnnd dddd FP16 FMAXP and its like (scalar)
0xx0 1111 00mm mmmm 1001 x0nn nnnd dddd FP16 FMUL, FMULX (by element)
01x1 1111 00mm mmmm 1001 x0nn nnnd dddd FP16 FMUL, FMULX (scalar, by element)
0x00 1111 00mm mmmm 0x01 x0nn nnnd dddd FP16 FMLA, FMLS (by element)
0101 1111 00mm mmmm 0x01 x0nn nnnd dddd FP16 FMLA, FMLS (scalar, by element)
0x00 1111 0000 0iii 1111 11ii iiid dddd FP16 FMOV (vector, immediate)
0xx0 1111 0001 iiii 1110 01nn nnnd dddd FP16 SCVTF, UCVTF (vector, fixed-point)
0xx0 1111 0001 iiii 1111 11nn nnnd dddd FP16 FCVTZS, FCVTZU (vector, fixed-point)
01x1 1111 0001 iiii 1110 01nn nnnd dddd FP16 SCVTF, UCVTF (scalar, fixed-point)
01x1 1111 0001 iiii 1111 11nn nnnd dddd FP16 FCVTZS, FCVTZU (scalar, fixed-point)
""")
"""The first row that a word fits is its row."""
