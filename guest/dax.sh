# In the guest: the tests of `crates/terrace/tests/dax.rs` on a file system with DAX and on one without.
modprobe nd_e820
modprobe nd_pmem
modprobe loop
modprobe ext4
waited=0
until [ -b /dev/pmem0 ] || [ $waited -eq 20 ]; do sleep 0.5; waited=$((waited + 1)); done
mkdir -p /mnt/dax /mnt/plain
/sbin/mke2fs -q -F -t ext4 -b 4096 /dev/pmem0 && mount -t ext4 -o dax /dev/pmem0 /mnt/dax || exit 97
truncate -s 64M /tmp/plain.ext4 && /sbin/mke2fs -q -F -t ext4 /tmp/plain.ext4 &&
    mount -t ext4 -o loop /tmp/plain.ext4 /mnt/plain || exit 98
grep /mnt /proc/mounts
export TERRACE_DAX_DIRECTORY=/mnt/dax TERRACE_PLAIN_DIRECTORY=/mnt/plain RUST_BACKTRACE=1
exec dax-test --test-threads 1 --nocapture
