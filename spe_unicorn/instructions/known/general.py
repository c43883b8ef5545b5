"""Instructions of general registers, branches, loads and stores (Arm ARM C4.1.93 to C4.1.96)."""

from __future__ import annotations

from typing import Final

from spe_unicorn.instructions.known.rows import Known, table

ROWS: Final[tuple[Known, ...]] = table("""
# exclusives and ordered accesses
xx00 1000 1x1s ssss x111 11nn nnnt tttt LSE CAS
0x00 1000 0x1s ssss x111 11nn nnnt tttt LSE CASP
xx00 1000 1x0s ssss 0uuu uunn nnnt tttt LOR LDLAR, STLLR
# atomics
xx11 1000 101s ssss 1100 00nn nnnt tttt LRCPC LDAPR
1111 1000 001s ssss 101x 00nn nnnt tttt LS64 ST64BV, ST64BV0
0x11 1000 xx1s ssss 1001 00nn nnnt tttt THE RCWCLR
0x11 1000 xx1s ssss 1010 00nn nnnt tttt THE RCWSWP
0x11 1000 xx1s ssss 1011 00nn nnnt tttt THE RCWSET
xx11 1000 xx1s ssss 0000 00nn nnnt tttt LSE LDADD
xx11 1000 xx1s ssss 0001 00nn nnnt tttt LSE LDCLR
xx11 1000 xx1s ssss 0010 00nn nnnt tttt LSE LDEOR
xx11 1000 xx1s ssss 0011 00nn nnnt tttt LSE LDSET
xx11 1000 xx1s ssss 0100 00nn nnnt tttt LSE LDSMAX
xx11 1000 xx1s ssss 0101 00nn nnnt tttt LSE LDSMIN
xx11 1000 xx1s ssss 0110 00nn nnnt tttt LSE LDUMAX
xx11 1000 xx1s ssss 0111 00nn nnnt tttt LSE LDUMIN
xx11 1000 xx1s ssss 1000 00nn nnnt tttt LSE SWP
1111 1000 xx1i iiii iiii x1nn nnnt tttt PAuth LDRAA, LDRAB
# loads and stores that order more, with an offset or in pairs
xx01 1001 xx0i iiii iiii 00nn nnnt tttt LRCPC2 LDAPUR, STLUR
# tags
1101 1001 0001 1111 000x 11nn nnnt tttt GCS GCSSTR, GCSSTTR
# data processing
x001 1010 110m mmmm 010x xxnn nnnd dddd CRC32 CRC32
1001 1010 110m mmmm 0011 00nn nnnd dddd PAuth PACGA
1101 1010 1100 0001 000x xxnn nnnd dddd PAuth PACIA, AUTIA
1101 1010 1100 0001 001x xx11 111d dddd PAuth PACIZA, AUTIZA
1101 1010 1100 0001 0100 0x11 111d dddd PAuth XPAC
1011 1010 000i iiii i000 01nn nnn0 mmmm FlagM RMIF
0011 1010 0000 0000 0x00 10nn nnn0 1101 FlagM SETF8, SETF16
# branches
1101 0110 0001 1111 0000 1xnn nnn1 1111 PAuth BRAAZ, BRABZ
1101 0110 0011 1111 0000 1xnn nnn1 1111 PAuth BLRAAZ, BLRABZ
1101 0110 0101 1111 0000 1x11 1111 1111 PAuth RETAA, RETAB
1101 0110 1001 1111 0000 1x11 1111 1111 PAuth ERETAA, ERETAB
1101 0111 0001 1111 0000 1xnn nnnm mmmm PAuth BRAA, BRAB
1101 0111 0011 1111 0000 1xnn nnnm mmmm PAuth BLRAA, BLRAB
""")
"""The first row that a word fits is its row."""
