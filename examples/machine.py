"""A whole machine from Python: run to a point, look, change something, run on, read the records.

``spe_copy`` is firmware that comes with the package: it programs SPE as a driver does and copies
memory while it is sampled.

Run it with ``python examples/machine.py``, or give it an ELF file of your own that has a ``main``.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

from spe_unicorn import Machine
from spe_unicorn.machine.shipped import shipped_firmware


def main(firmware: Path) -> None:
    """Run ``firmware``, and say what it did."""
    with Machine(firmware, seed=1) as machine:
        pe = machine.pes[0]
        outcome = machine.run(until="main", operations=10_000_000)
        print(f"{outcome.ending}: {pe} in {outcome.symbol}, X0 is {pe.x[0]:#x}")

        writes: Counter[str] = Counter()
        stop = machine.observe("sysreg", lambda pe, access: writes.update([access.name]))
        machine.run(operations=100_000)
        stop()
        print(f"{len(writes)} SPE registers were used, PMSIRR_EL1 is {pe.registers.PMSIRR_EL1}")

        outcome = machine.run(timeout=60)
        print(f"{outcome.ending}, status {outcome.exit_status}: {outcome.operations} operations")
        print(f"{outcome.statistics.written} records, {outcome.statistics.bytes} bytes")
        where: Counter[str] = Counter()
        for record in machine.records:
            if record.pc is not None:
                where[machine.symbolize(record.pc) or "?"] += 1
        for symbol, count in where.most_common(3):
            print(f"  {count:4} {symbol}")
        print(f"its last line: {machine.console.text.splitlines()[-1]}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else shipped_firmware("spe_copy"))
