"""What names the kernel's addresses in a recording of perf's, put beside it by the guest."""

from __future__ import annotations

from pathlib import Path

import pytest

from spe_unicorn.pytest_plugin.linux import LinuxOfTest


@pytest.mark.slow
def test_a_recording_comes_with_the_names_of_its_kernel_and_other_files_do_not(
    tmp_path: Path,
) -> None:
    linux = LinuxOfTest.of(tmp_path)
    done = linux.run("sh", "-c", "mkdir /out/perf.data; echo PERFILE >/out/short", timeout=1200)
    assert done.why is None
    assert done.out is not None
    assert sorted(f.name for f in done.out.iterdir()) == ["console.txt", "perf.data", "short"]
    done = linux.run("sh", "-c", "echo PERFILE2 >/out/recorded; exit 3", timeout=1200)
    assert done.status == 3
    assert done.out is not None
    names = (done.out / "kallsyms").read_text()
    assert "\t[arm_spe_pmu]\n" in names
    assert " T kernel_clone\n" in names
    modules = (done.out / "modules").read_text()
    assert [line for line in modules.splitlines() if line.startswith("arm_spe_pmu ")]
