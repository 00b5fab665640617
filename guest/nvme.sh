# In the guest: its kernel as the host of a node, and as a target for our client. Namespace 1 is of
# keys, 2 of blocks. Each step says its time; the first that fails ends the run.
. /bin/nvme_begin.sh
host=nqn.2014-08.org.nvmexpress:uuid:11111111-1111-1111-1111-111111111111
node="-t tcp -a 10.0.2.2 -s $port --hostnqn=$host --hostid=${host##*:}"

# The block device of a namespace, found by its number.
block_device() {
    for nsid in /sys/block/nvme*/nsid; do
        directory=${nsid%/nsid}
        [ -b "/dev/${directory##*/}" ] && [ "$(cat "$nsid")" = "$1" ] && echo "/dev/${directory##*/}"
    done | grep .
}

connect() {
    /tools/bin/nvme connect $node -n "$subsystem" -i 2 --reconnect-delay=1 "$@" ||
        fail "nvme connect $*"
    until_done block_device 2
    # One of them is of keys: the kernel numbers devices as it finds namespaces.
    until_done test -e /dev/ng0n1
    until_done test -e /dev/ng0n2
    disk=$(block_device 2)
    [ "$(cat /sys/class/nvme/nvme0/queue_count)" = 3 ] || fail "two queues and the admin queue"
}

disconnect() {
    /tools/bin/nvme disconnect -n "$subsystem" | grep -q "disconnected 1" || fail "nvme disconnect"
}

verify="--name=verify --ioengine=psync --direct=1 --verify=crc32c --verify_fatal=1 --output-format=terse"

step "discovery"
/tools/bin/nvme discover $node | grep -q "subnqn: *$subsystem" || fail "the subsystem is not listed"

step "two queues; keys by pass-through"
connect
tests --test-threads 1 --nocapture --skip outlive --skip target --skip without_io_uring || fail "keys by pass-through"

step "terrace kv by pass-through"
terrace kv put --local hello world || fail "terrace kv put"
[ "$(terrace kv get --local hello)" = world ] || fail "terrace kv get"
[ "$(for device in /dev/ng0n*; do terrace kv get --device $device hello; done)" = world ] ||
    fail "terrace kv get --device, by the one device alone that is of namespace 1"
[ "$(terrace kv list --local --subsystem "$subsystem")" = hello ] || fail "terrace kv list"
terrace kv del --local hello || fail "terrace kv del"
terrace kv exists --local hello
[ $? = 1 ] || fail "terrace kv exists"
disconnect

step "digests; a file system on blocks"
connect -g -G
/sbin/mke2fs -q -F -t ext4 "$disk" || fail "mke2fs"
mount -t ext4 "$disk" /mnt/disk || fail "mount"
for number in 1 2 3 4; do
    dd if=/dev/urandom of=/mnt/disk/$number bs=256k count=$number 2>/dev/null || fail "writing files"
done
(cd /mnt/disk && md5sum 1 2 3 4) >/tmp/sums
umount /mnt/disk
echo 3 >/proc/sys/vm/drop_caches
mount -t ext4 "$disk" /mnt/disk || fail "mount"
(cd /mnt/disk && md5sum -c /tmp/sums) || fail "files differ"
umount /mnt/disk

step "fio on blocks, verified"
/tools/bin/fio $verify --filename="$disk" --rw=randwrite --bsrange=4k-128k --size=4m >/tmp/fio ||
    fail "fio: $(cat /tmp/fio)"

step "the node is killed and restarted under stores and writes"
# While the kernel tears a connection down it tries a write again at once, and after a number of
# times the write fails. On a busy machine 255 times are over before the connection is down. The
# kernel reports each, so a pause after each message gives it a second.
echo 255 >/sys/module/nvme_core/parameters/max_retries || fail "max_retries"
echo 5 >/proc/sys/kernel/printk_delay || fail "printk_delay"
writes() {
    awk '{ print $5 }' "/sys/block/${disk##*/}/stat"
}
has_written() {
    [ "$(writes)" -gt $((before + 10)) ]
}
before=$(writes)
(
    until [ -e /tmp/enough ]; do
        /tools/bin/fio $verify --filename="$disk" --rw=randwrite --bs=16k --size=3m --rate_iops=80 || exit 1
    done
) >/tmp/fio 2>&1 &
writer=$!
until_done has_written
export TERRACE_NVME_RESTARTS=1
tests --nocapture outlive || fail "stores across a restart"
touch /tmp/enough
wait $writer || fail "fio across a restart: $(cat /tmp/fio)"
[ "$(dmesg | grep -c "Successfully reconnected")" = 2 ] || fail "two restarts"
echo 0 >/proc/sys/kernel/printk_delay
disconnect

step "the kernel's target and our client"
for module in nvmet_tcp configfs; do modprobe $module || fail "modprobe $module"; done
modprobe null_blk nr_devices=1 gb=1 memory_backed=1 || fail "modprobe null_blk"
mount -t configfs configfs /sys/kernel/config 2>/dev/null
target=nqn.2026-01.example:kernel
cd /sys/kernel/config/nvmet || fail "no configuration of nvmet"
mkdir subsystems/$target subsystems/$target/namespaces/1 ports/1
echo 1 >subsystems/$target/attr_allow_any_host
echo /dev/nullb0 >subsystems/$target/namespaces/1/device_path
echo 1 >subsystems/$target/namespaces/1/enable || fail "nvmet's namespace"
echo 127.0.0.1 >ports/1/addr_traddr
echo tcp >ports/1/addr_trtype
echo 4420 >ports/1/addr_trsvcid
echo ipv4 >ports/1/addr_adrfam
ln -s /sys/kernel/config/nvmet/subsystems/$target ports/1/subsystems/$target || fail "nvmet's port"
export TERRACE_NVMET="127.0.0.1:4420 $target"
tests --nocapture target || fail "nvmet"

step "done"
