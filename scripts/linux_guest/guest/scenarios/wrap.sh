# Fills a small buffer many times over; then one that is too small for perf to keep up.
irqs() {
    awk '/arm_spe/ { print $2 }' /proc/interrupts
}
fill() {
    before=$(irqs)
    perf record -q -m "$2" -e arm_spe_0/ts_enable=1/u -c 1024 -o "$1.data" -- hot 40 2>/dev/null >/dev/null
    section "interrupts $1"
    echo "serviced $(($(irqs) - before))"
    send "$1.data"
}
fill wrapped ,64K
fill truncated ,16K
section spurious
cat "/proc/irq/$(awk -F: '/arm_spe/ { print $1 + 0 }' /proc/interrupts)/spurious"
