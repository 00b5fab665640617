#!/usr/bin/env bash
# Builds a small Linux guest out of Debian packages: a kernel with DAX, btrfs and NVMe over TCP,
# busybox, mke2fs, and the programs given. The kernel is fetched once and kept.
#
# usage: guest/prepare.sh DIRECTORY [PROGRAM ...]
#   makes DIRECTORY/vmlinuz and DIRECTORY/initrd.gz; the programs land in the guest's /bin, with the
#   libraries of this machine that they need
#
# GUEST_KERNELS names the place of another kernel: `backports` is the suite of newer packages for this
# release of Debian, whose index is fetched and kept in DIRECTORY.
#
# Exit codes: 0 done, 3 something is missing that can be installed or needs a network (it says what).
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
directory=$1
shift
programs=()
for program in "$@"; do programs+=("$(realpath "$program")"); done
PATH=$PATH:/usr/sbin:/sbin

missing() {
    echo "$1"
    exit 3
}

for tool in busybox:busybox-static cpio:cpio depmod:kmod mke2fs:e2fsprogs dpkg:dpkg apt-get:apt; do
    command -v "${tool%%:*}" >/dev/null || missing "${tool%%:*} is not installed (package ${tool##*:})"
done
ldd "$(command -v busybox)" >/dev/null 2>&1 && missing "busybox is not static (package busybox-static)"

mkdir -p "$directory"
cd "$directory"

# The whole of it, or nothing: a download that was cut short must not be taken for a kernel.
if [ ! -e vmlinuz ]; then
    rm -rf packages kernel
    mkdir packages kernel
    options=(-qq -o APT::Sandbox::User=root)
    if [ -n "${GUEST_KERNELS:-}" ]; then
        suite=$(. /etc/os-release && echo "${VERSION_CODENAME:-}-$GUEST_KERNELS")
        mkdir -p apt/lists/partial apt/cache/archives/partial
        echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]" \
            "http://deb.debian.org/debian $suite main" >apt/sources.list
        options+=(-o "Dir::Etc::sourcelist=$PWD/apt/sources.list" -o Dir::Etc::sourceparts=/dev/null
            -o "Dir::State::lists=$PWD/apt/lists" -o "Dir::Cache=$PWD/apt/cache")
        apt-get "${options[@]}" -o APT::Update::Error-Mode=any update >&2 ||
            missing "the index of $suite cannot be downloaded"
    fi
    package=$(apt-cache "${options[@]}" depends linux-image-cloud-amd64 2>/dev/null |
        awk '/Depends:/ { print $2; exit }')
    [ -n "$package" ] || missing "no package linux-image-cloud-amd64 (Debian's apt-get update is needed)"
    (cd packages && apt-get "${options[@]}" download "$package") ||
        missing "the kernel package $package cannot be downloaded"
    dpkg -x packages/"$package"_*.deb kernel
    depmod -b kernel "$(ls kernel/lib/modules)"
    cp kernel/boot/vmlinuz-* vmlinuz.new
    mv vmlinuz.new vmlinuz
fi

version=$(ls kernel/lib/modules)
libraries=lib/x86_64-linux-gnu
root=$PWD/root
rm -rf root
mkdir -p root/{bin,sbin,dev,proc,sys,tmp,mnt,etc,lib64} "root/$libraries" "root/lib/modules/$version"
cp "$(command -v busybox)" root/bin/busybox
cp "$here/init" root/init
cp "$(command -v mke2fs)" root/sbin/
cp /etc/mke2fs.conf root/etc/
cp -L /lib64/ld-linux-x86-64.so.2 root/lib64/
for program in "${programs[@]}"; do cp "$program" root/bin/; done
# Of a script ldd lists nothing.
for program in "$(command -v mke2fs)" "${programs[@]}"; do
    { ldd "$program" 2>/dev/null || true; } | awk '/=> \// { print $3 }'
done | sort -u | xargs -I{} cp -L {} "root/$libraries/"

cp kernel/lib/modules/"$version"/modules.{builtin,order,builtin.modinfo} "root/lib/modules/$version/"
for module in nd_e820 nd_pmem loop ext4 btrfs virtio_pci virtio_net virtio_blk crc32c_generic configfs \
    nvme_tcp nvmet_tcp null_blk hmac sha256_generic sha512_generic dh_generic; do
    modprobe -d "$PWD/kernel" -S "$version" --show-depends "$module" 2>/dev/null |
        awk '/^insmod/ { print $2 }' || true
done | sort -u | while read -r file; do
    inside=${file#"$PWD"/kernel/}
    mkdir -p "root/$(dirname "$inside")"
    cp "$file" "root/$inside"
    # busybox loads modules as they are.
    case $inside in *.xz) unxz "root/$inside" ;; esac
done
depmod -b "$root" "$version"

(cd root && find . -print0 | cpio --null -o -H newc --quiet | gzip -1) >initrd.gz
