# Runs KVM's selftests in /kvm. Each may take a second of the guest, which is 10^9 operations.
section log
dmesg | grep -E "kvm \[|CPU: All CPU"
for program in /kvm/*; do
    set --
    case "${program##*/}" in
    arch_timer) set -- -m 0 -n 1 -i 1 -p 1 ;; # no migration between CPUs, one vCPU, once, with 1 ms
    debug-exceptions) set -- -i 5 ;;          # 5 rounds of single steps in place of 10000
    kvm_page_table_test) set -- -v 1 -b 4M ;;
    esac
    section "selftest ${program##*/} $*"
    timeout -s KILL 1 "$program" "$@" >said 2>&1 </dev/null
    echo "status $?"
    tail -n 12 said
done
