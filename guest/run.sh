#!/usr/bin/env bash
# Boots the guest under emulation (no KVM is needed; a few seconds to init) and runs one program of
# its /bin in it. 512 MiB of its memory are a persistent memory device, /dev/pmem0, with DAX; it is
# gone with the guest. An address 127.0.0.1:PORT of this machine is 10.0.2.2:PORT in the guest. If
# DIRECTORY has tools.ext4 (guest/tools.sh), the guest has it as /dev/vda. GUEST_DISK names an image
# that the guest may write to: its disk with the serial number `work`. A crash of this machine may spoil it.
#
# usage: guest/run.sh DIRECTORY PROGRAM [WORD ...]
#   the words are part of the kernel's command line, where the program finds them
#   the exit code is the program's; 99 if the guest never said it, after GUEST_TIMEOUT_S (300)
#
# The emulation of cmpxchg16b is flawed in qemu 7.2: newer kernels meet null pointers at their start.
set -euo pipefail

directory=$1
program=$2
shift 2
# Several guests of a directory may run at once.
log=$(mktemp)
trap 'rm -f "$log"' EXIT
disks=()
# Adds the disk with a serial number, an image and options of its drive.
disk() {
    disks+=(-drive "if=none,id=$1,format=raw,file=$2,$3" -device "virtio-blk-pci,drive=$1,serial=$1")
}
[ -e "$directory/tools.ext4" ] && disk tools "$directory/tools.ext4" readonly=on
[ -n "${GUEST_DISK:-}" ] && disk work "$GUEST_DISK" cache=unsafe
timeout "${GUEST_TIMEOUT_S:-300}" qemu-system-x86_64 \
    -accel tcg -cpu max,la57=off,cx16=off -m 2G -smp 2 \
    -nodefaults -nographic -no-reboot -serial stdio \
    -kernel "$directory/vmlinuz" -initrd "$directory/initrd.gz" \
    -append "console=ttyS0 panic=-1 quiet memmap=512M!1G run=$program $*" \
    -netdev user,id=net -device virtio-net-pci,netdev=net,romfile= "${disks[@]}" \
    </dev/null | sed -u 's/\r//g' | tee "$log" || true
code=$(awk '/^guest: exit code/ { code = $4 } END { print code == "" ? 99 : code }' "$log")
exit "$code"
