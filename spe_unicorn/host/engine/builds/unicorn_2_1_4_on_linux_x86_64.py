"""The code that Unicorn 2.1.4 makes of a guest's, on Linux on x86-64."""

from __future__ import annotations

from typing import Final

from spe_unicorn.host.engine.builds.forms import CodeForm, Pattern, TlbEntry

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
    slow_stores="tlb_reset_dirty_aarch64",
    tlb=TlbEntry(words=5, write=1, code=2, addend=4, page_bits=10, not_dirty=1 << 8),
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
