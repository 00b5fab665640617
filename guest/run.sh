#!/usr/bin/env bash
# Boots the guest under emulation (no KVM is needed; a few seconds to init) and runs one program of
# its /bin in it. 512 MiB of its memory are a persistent memory device, /dev/pmem0, with DAX; it is
# gone with the guest.
#
# usage: guest/run.sh DIRECTORY PROGRAM
#   the exit code is the program's; 99 if the guest never said it, after GUEST_TIMEOUT_S (300)
set -euo pipefail

directory=$1
program=$2
log=$directory/log
timeout "${GUEST_TIMEOUT_S:-300}" qemu-system-x86_64 \
    -accel tcg -cpu max,la57=off -m 2G -smp 2 \
    -nodefaults -nographic -no-reboot -serial stdio \
    -kernel "$directory/vmlinuz" -initrd "$directory/initrd.gz" \
    -append "console=ttyS0 panic=-1 quiet memmap=512M!1G run=$program" \
    </dev/null | tr -d '\r' | tee "$log" || true
code=$(awk '/^guest: exit code/ { code = $4 } END { print code == "" ? 99 : code }' "$log")
exit "$code"
