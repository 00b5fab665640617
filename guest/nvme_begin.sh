# In the guest: the beginning of its NVMe scripts. The kernel's command line has port= and subsystem=
# of a node at 10.0.2.2. Programs that are not ours are in /tools/bin.
for word in $(cat /proc/cmdline); do
    case $word in
    port=*) port=${word#port=} ;;
    subsystem=*) subsystem=${word#subsystem=} ;;
    esac
done

step() {
    echo "guest: $(cut -d ' ' -f 1 /proc/uptime) s: $1"
}

fail() {
    echo "guest: FAILED: $1"
    dmesg | tail -40
    exit 1
}

# Runs tests, of which there must be some.
tests() {
    nvme-test "$@" 2>&1 | tee /tmp/tests
    grep -q "test result: ok. [1-9]" /tmp/tests && ! grep -q "not tested" /tmp/tests
}

# Waits up to 10 s until a command succeeds.
until_done() {
    waited=0
    until "$@" >/dev/null 2>&1; do
        [ $waited -lt 100 ] || fail "waited for: $*"
        sleep 0.1
        waited=$((waited + 1))
    done
}

for module in virtio_pci virtio_net virtio_blk ext4 crc32c_generic nvme_tcp; do
    modprobe $module || fail "modprobe $module"
done
ip link set lo up
until_done ip link set eth0 up
ip addr add 10.0.2.15/24 dev eth0
mkdir -p /tools /mnt/disk
until_done test -b /dev/vda
mount -t ext4 -o ro /dev/vda /tools || fail "the disk with tools"
export LD_LIBRARY_PATH=/tools/lib:$LD_LIBRARY_PATH RUST_BACKTRACE=1
export TERRACE_NVME_KEYS=1 TERRACE_NVME_BLOCKS=2 TERRACE_NVME_SUBSYSTEM=$subsystem
