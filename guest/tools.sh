#!/usr/bin/env bash
# Makes a disk with programs for the guest's NVMe tests, and their libraries: nvme-cli out of its
# Debian package, which is fetched once and kept, and fio as it is installed here. They are too large
# for the guest's memory.
#
# usage: guest/tools.sh DIRECTORY
#   makes DIRECTORY/tools.ext4, whose `bin` and `lib` are for the guest's PATH and LD_LIBRARY_PATH
#
# Exit codes: 0 done, 3 something is missing that can be installed or needs a network (it says what).
set -euo pipefail

directory=$1
PATH=$PATH:/usr/sbin:/sbin

missing() {
    echo "$1"
    exit 3
}

command -v fio >/dev/null || missing "fio is not installed (package fio)"
mkdir -p "$directory"
cd "$directory"
if [ ! -e nvme-cli/usr/sbin/nvme ]; then
    rm -rf packages-nvme nvme-cli nvme-cli.new
    mkdir packages-nvme nvme-cli.new
    (cd packages-nvme && apt-get -qq -o APT::Sandbox::User=root download nvme-cli libnvme1) ||
        missing "the packages nvme-cli and libnvme1 cannot be downloaded"
    for package in packages-nvme/*.deb; do dpkg -x "$package" nvme-cli.new; done
    mv nvme-cli.new nvme-cli
fi
[ tools.ext4 -nt nvme-cli/usr/sbin/nvme ] && [ tools.ext4 -nt "$(command -v fio)" ] && exit 0

rm -rf tools tools.new
mkdir -p tools/bin tools/lib
cp nvme-cli/usr/sbin/nvme "$(command -v fio)" tools/bin/
cp -L nvme-cli/usr/lib/x86_64-linux-gnu/libnvme*.so.1 tools/lib/
for program in tools/bin/*; do
    LD_LIBRARY_PATH=tools/lib ldd "$program" | awk '/=> \// { print $3 }' |
        xargs -I{} cp -Lu {} tools/lib/ 2>/dev/null || true
done
mke2fs -q -F -t ext4 -d tools tools.new 160M
mv tools.new tools.ext4
rm -rf tools
