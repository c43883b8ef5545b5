# Profiles more than a thousand million operations.
irqs() {
    awk '/arm_spe/ { print $2 }' /proc/interrupts
}
before=$(irqs)
perf record -q -m ,128K -e arm_spe_0/ts_enable=1,jitter=1/ -c 20000 -o long.data -- hot 5000 >/dev/null
section interrupts
echo "serviced $(($(irqs) - before))"
section spurious
cat "/proc/irq/$(awk -F: '/arm_spe/ { print $1 + 0 }' /proc/interrupts)/spurious"
send long.data
