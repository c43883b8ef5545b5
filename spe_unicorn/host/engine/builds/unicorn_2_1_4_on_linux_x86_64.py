"""The code that Unicorn 2.1.4 makes of a guest's, on Linux on x86-64."""

from __future__ import annotations

from typing import Final

from spe_unicorn.host.engine.builds.forms import CodeForm, Lookup, Pattern, TlbEntry

KNOWN: Final = CodeForm(
    asked=-16,
    pc=0x140,
    described=160,
    alignment=64,
    longest=1 << 14,
    check=Pattern(
        "4C 8B 87 ?? ?? ?? ?? "  # mov r8, [rdi + cpu]
        "41 8B 80 ?? ?? ?? ?? "  # mov eax, [r8 + asked]
        "85 C0 79 04 "  # test eax, eax; jns over
        "85 F6 74 ?? C3"  # test esi, esi; je leave; over: ret
    ),
    check_cpu=3,
    check_asked=10,
    lookup=Lookup(
        name="helper_lookup_tb_ptr_aarch64",
        code=Pattern(
            "41 54 55 53 48 89 FB 48 83 EC 20 "
            "48 8B AF D8 5D FF FF "  # mov rbp, [rdi - 0xA228]: the PE's state again
            "4C 8B A7 58 DE FF FF 48 8D 4C 24 0C 48 8D 74 24 18 48 89 EF 48 8D 54 24 10 "
            "E8 ?? ?? ?? ?? "  # call cpu_get_tb_cpu_state
            "48 8B 74 24 18 4C 8B 4C 24 10 48 8B 85 B8 31 00 00 "
            "44 8B 83 44 DE FF FF "  # mov r8d, [rbx + group]
            "48 8B 80 A8 02 00 00 41 C1 E0 18 8B 48 04 48 89 F0 83 E9 06 48 D3 E8 48 31 F0 "
            "48 89 C5 83 E0 3F 48 D3 ED 8B 4C 24 0C 81 E5 C0 0F 00 00 09 E8 89 C5 "
            "48 8B 84 EB E8 5D FF FF "  # mov rax, [rbx + rbp * 8 + recent]
            "48 85 C0 74 3A "  # test rax, rax; je over
            "48 3B 30 75 35 "  # cmp rsi, [rax]; jne over
            "4C 39 48 08 75 2F "  # cmp [rax + 8], r9; jne over
            "39 48 10 75 2A "  # cmp [rax + 16], ecx; jne over
            "8B 50 1C 48 3B 93 38 DE FF FF 75 1E "  # edx = [rax + 28]; cmp rdx, [rbx + traced]
            "8B 50 18 81 E2 FF FF 0E FF 41 39 D0 75 10 "  # the same of [rax + 24] and group
            "48 8B 40 20 48 83 C4 20 5B 5D 41 5C C3"  # mov rax, [rax + 32]; ret
        ),
        flags_name="cpu_get_tb_cpu_state_aarch64",
        flags_code=Pattern(
            "8B 87 50 01 00 00 48 C7 02 00 00 00 00 85 C0 79 3F "  # mov eax, [rdi + flags]
            "48 8B 97 40 01 00 00 48 89 16 "  # mov rdx, [rdi + pc]
            "F6 87 98 32 00 00 0F 0F 85 08 01 00 00 "  # test byte [rdi + branch_types], 15; jne
            "8B 97 48 01 00 00 A9 00 00 00 40 74 11 89 C6 81 CE 00 00 00 20 81 E2 00 00 20 00 "
            "0F 45 C6 89 01 C3"
        ),
        branch_type_at=0x130,
        branch_type_code=Pattern(
            "8B 97 28 02 00 00 "  # mov edx, [rdi + branch_type]
            "C1 E2 0A 31 C2 81 E2 00 0C 00 00 31 D0 E9 E0 FE FF FF"
        ),
        flags=0x150,
        alike=(1 << 31, 0b11 << 30),
        branch_types=(0x3298, 0xF),
        branch_type=0x228,
        branch_type_lsb=10,
        recent=-0xA218,
        recent_bits=6,
        traced=-0x21C8,
        group=-0x21BC,
        compared=0xFF0E_FFFF,
        block_pc=0,
        block_base=8,
        block_flags=16,
        block_group=24,
        block_traced=28,
        block_code=32,
    ),
    slow_stores="tlb_reset_dirty_aarch64",
    tlb=TlbEntry(words=5, write=1, code=2, addend=4, not_dirty=1 << 8),
    load_compare=Pattern("48 3B 37"),  # cmp rsi, [rdi]
    store_compare=Pattern("48 3B 77 08"),  # cmp rsi, [rdi + 8]
    add_place=Pattern("48 03 77 20"),  # add rsi, [rdi + 32]
    slow_way=Pattern("48 8B FD"),  # mov rdi, rbp
    load_what=0xBA,  # mov edx
    load_end=Pattern("48 8D 0D"),  # lea rcx, [rip + distance]
    store_what=0xB9,  # mov ecx
    store_end=Pattern("4C 8D 05"),  # lea r8, [rip + distance]
    size_lsb=4,
)
