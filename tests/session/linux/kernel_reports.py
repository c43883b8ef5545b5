"""What Linux says when something is wrong with it."""

from __future__ import annotations

# Lines as Linux prints them: kernel/panic.c, mm/kasan/report.c, kernel/rcu/tree_stall.h,
# kernel/locking/lockdep.c, arch/arm64/kernel/traps.c
REPORTS = (
    b"WARNING: CPU: 0 PID: 71 at drivers/perf/arm_spe_pmu.c:624 arm_spe_pmu_irq_handler+0x1c/0x2a0",
    b"WARNING: possible circular locking dependency detected",
    b"BUG: KASAN: slab-out-of-bounds in arm_spe_pmu_start+0x8/0x10 [arm_spe_pmu]",
    b"BUG: sleeping function called from invalid context at kernel/locking/mutex.c:580",
    b"Internal error: Oops: 0000000096000004 [#1] SMP",
    b"rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:",
    b"rcu: INFO: rcu_sched self-detected stall on CPU",
    b"INFO: task perf:71 blocked for more than 120 seconds.",
)
