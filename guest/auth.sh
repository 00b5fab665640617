# In the guest: its kernel, which must be 6.12 or newer in Debian, authenticates itself to a node by
# DH-HMAC-CHAP, and the node itself to the kernel. /bin/secrets has hosts and secrets.
. /bin/nvme_begin.sh
for module in hmac sha256_generic sha512_generic dh_generic; do modprobe $module; done

# connect HOST ARGUMENT ...
connect() {
    host=$1
    shift
    /tools/bin/nvme connect -t tcp -a 10.0.2.2 -s "$port" -n "$subsystem" --hostnqn="$host" \
        --hostid="${host##*:}" -i 2 "$@" >/tmp/connect 2>&1
}

disconnect() {
    /tools/bin/nvme disconnect -n "$subsystem" | grep -q "disconnected 1" || fail "nvme disconnect"
}

refused() {
    connect "$@" && fail "a connection without its secret: $*"
    [ -e /dev/ng0n1 ] && fail "a device without its secret: $*"
}

# Pass-through with this kernel, and where it forbids io_uring.
pass_through() {
    tests values --nocapture || fail "keys by pass-through"
    echo 2 >/proc/sys/kernel/io_uring_disabled || fail "forbidding io_uring"
    export TERRACE_NVME_NO_RING=1
    tests without_io_uring --nocapture || fail "keys without io_uring"
    unset TERRACE_NVME_NO_RING
}

grep -v '^#' /bin/secrets >/tmp/secrets
other=$(awk 'END { print $2 }' /tmp/secrets)
hosts=0
while read -r host secret own <&3; do
    hosts=$((hosts + 1))
    kind=$(echo "$secret" | cut -d : -f 2)
    step "secret of kind $kind"
    connect "$host" --dhchap-secret="$secret" || fail "$(cat /tmp/connect)"
    until_done test -e /dev/ng0n1
    disconnect
    connect "$host" --dhchap-secret="$secret" --dhchap-ctrl-secret="$own" || fail "$(cat /tmp/connect)"
    until_done test -e /dev/ng0n1
    until_done test -e /dev/ng0n2
    tests a_device_is_found || fail "keys"
    [ "$secret" != "$other" ] || pass_through
    disconnect
    refused "$host"
    [ "$secret" = "$other" ] || refused "$host" --dhchap-secret="$other"
    refused "$host" --dhchap-secret="$secret" --dhchap-ctrl-secret="$other"
done 3</tmp/secrets
[ $hosts = 4 ] || fail "$hosts hosts with secrets"

step "done"
