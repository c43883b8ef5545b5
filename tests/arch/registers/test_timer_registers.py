"""The registers of the generic timer have the encodings that Arm ARM D24.10 gives them."""

from __future__ import annotations

import pytest

from spe_unicorn.arch.registers import timer

ENCODINGS = """
CNTFRQ_EL0 3,3,14,0,0       CNTPCT_EL0 3,3,14,0,1       CNTVCT_EL0 3,3,14,0,2
CNTPCTSS_EL0 3,3,14,0,5     CNTVCTSS_EL0 3,3,14,0,6     CNTKCTL_EL12 3,5,14,1,0
CNTP_TVAL_EL0 3,3,14,2,0    CNTP_CTL_EL0 3,3,14,2,1     CNTP_CVAL_EL0 3,3,14,2,2
CNTV_TVAL_EL0 3,3,14,3,0    CNTV_CTL_EL0 3,3,14,3,1     CNTV_CVAL_EL0 3,3,14,3,2
CNTHP_TVAL_EL2 3,4,14,2,0   CNTHP_CTL_EL2 3,4,14,2,1    CNTHP_CVAL_EL2 3,4,14,2,2
CNTHV_TVAL_EL2 3,4,14,3,0   CNTHV_CTL_EL2 3,4,14,3,1    CNTHV_CVAL_EL2 3,4,14,3,2
CNTPS_TVAL_EL1 3,7,14,2,0   CNTPS_CTL_EL1 3,7,14,2,1    CNTPS_CVAL_EL1 3,7,14,2,2
CNTP_TVAL_EL02 3,5,14,2,0   CNTP_CTL_EL02 3,5,14,2,1    CNTP_CVAL_EL02 3,5,14,2,2
CNTV_TVAL_EL02 3,5,14,3,0   CNTV_CTL_EL02 3,5,14,3,1    CNTV_CVAL_EL02 3,5,14,3,2
"""


@pytest.mark.parametrize(
    ("name", "encoding"),
    list(zip(ENCODINGS.split()[::2], ENCODINGS.split()[1::2], strict=True)),
)
def test_encodings_are_those_of_the_architecture(name: str, encoding: str) -> None:
    e = getattr(timer, name).encoding
    assert f"{e.op0},{e.op1},{e.crn},{e.crm},{e.op2}" == encoding
