from spe_unicorn.output.text import record_text
from spe_unicorn.spe.record import decode_stream
from tests.support.samples import other, stream, with_everything


def text(data, base=0):
    return [
        record_text(data, placed, number, cpu=2, base=base)
        for number, placed in enumerate(decode_stream(data))
    ]


def test_every_packet_has_a_line_with_offset_bytes_and_meaning():
    (block,) = text(stream([with_everything()], align=0))
    assert block.splitlines() == [
        "record 0 at 0x0 of cpu 2, 109 bytes",
        "  00000000  64 34 12 00 00                 CONTEXT        CONTEXTIDR_EL1 0x1234",
        "  00000005  65 cd ab 00 00                 CONTEXT        CONTEXTIDR_EL2 0xabcd",
        "  0000000a  98 2a 00                       COUNTER        total 42",
        "  0000000d  99 05 00                       COUNTER        issue 5",
        "  00000010  9a 03 00                       COUNTER        translation 3",
        "  00000013  9c 02 00                       COUNTER        alternate_issue 2",
        "  00000016  22 99 ff 01                    COUNTER        17 511",
        "  0000001a  b0 00 10 00 10 00 80 ff b0     ADDRESS        pc 0xffff800010001000 EL1 realm",
        "  00000023  b1 00 20 00 10 00 80 ff c0     ADDRESS        "
        "branch_target 0xffff800010002000 EL2 non-secure",
        "  0000002c  b2 f8 0f ff 1f 00 80 ff ff     ADDRESS        va 0xffff80001fff0ff8 tag 0xff",
        "  00000035  b3 08 10 00 80 00 00 00 c5     ADDRESS        "
        "pa 0x80001008 non-secure ch 1 pat 0x5",
        "  0000003e  b4 f0 0f 40 00 00 00 00 60     ADDRESS        "
        "previous_branch_target 0x400ff0 EL3 secure",
        "  00000047  b5 55 00 00 00 00 00 00 00     ADDRESS        5 0x55",
        "  00000050  22 b0 9a 78 56 34 12 00 00 00  ADDRESS        16 0x123456789a",
        "  0000005a  53 34 12                       DATA_SOURCE    0x1234",
        "  0000005d  49 bc                          OPERATION_TYPE "
        "load sve 256-bit predicated gather-scatter",
        "  0000005f  62 16 00 02 01                 EVENTS         "
        "0x1020016 retired l1d_access tlb_access sve_partial streaming",
        "  00000064  71 d0 07 00 00 00 00 00 00     TIMESTAMP      2000",
    ]


def test_padding_is_shown_where_it_stands():
    inside = bytes.fromhex("48 00 00 00 52 02 00 01 00")
    first, second = text(inside + stream([other(data_source=8, timestamp=None)], align=5), base=64)
    assert first.splitlines() == [
        "record 0 at 0x40 of cpu 2, 8 bytes",
        "  00000040  48 00                          OPERATION_TYPE other",
        "  00000042  00 00                          PADDING        2 bytes",
        "  00000044  52 02 00                       EVENTS         0x2 retired",
        "  00000047  01                             END",
        "  00000048  00                             PADDING        1 byte",
    ]
    assert second.splitlines()[0] == "record 1 at 0x49 of cpu 2, 17 bytes"
    assert second.splitlines()[2] == (
        "  00000052  43 08                          DATA_SOURCE    0x8 (L2 on Neoverse)"
    )
    assert second.splitlines()[-1] == (
        "  0000005a  00 00 00 00 00 00 00 00 00 00  PADDING        15 bytes"
    )


def test_decoded_text_repeats_every_byte_of_a_stream():
    data = stream([with_everything(), other(), with_everything()], align=0)
    lines = [line for block in text(data) for line in block.splitlines() if line[0] == " "]
    assert b"".join(bytes.fromhex(line[12:43]) for line in lines) == data
