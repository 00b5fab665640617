# In the guest: the tests of `crates/terrace/tests/full_disk.rs` on the btrfs of the disk `work`.
for module in virtio_pci virtio_blk btrfs; do
    modprobe $module || exit 96
done
work() {
    for serial in /sys/block/vd*/serial; do
        directory=${serial%/serial}
        [ -e "$serial" ] && [ "$(cat "$serial")" = work ] && echo "/dev/${directory##*/}"
    done | grep .
}
waited=0
until disk=$(work) || [ $waited -eq 20 ]; do sleep 0.5; waited=$((waited + 1)); done
mkdir -p /mnt/work
mount -t btrfs "$disk" /mnt/work || exit 97
grep /mnt /proc/mounts
# Emulation is slow.
export TERRACE_PATIENCE_S=300 TERRACE_FULL_DISK_ROUNDS=2
export TERRACE_LOOP_MOUNT=/mnt/work RUST_BACKTRACE=1
full_disk-test --test-threads 1 --nocapture
code=$?
umount /mnt/work || exit 98
exit $code
