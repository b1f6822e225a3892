#!/bin/bash
# Runs a command on another kernel: a virtual machine that has this machine's files to read, and a
# kernel from a distribution's packages. For what only another kernel can tell: whether its verifier
# takes the programs. The processor is emulated, so nothing here tells how fast anything is.
#
#   scripts/other-kernel.sh PACKAGE.deb [PACKAGE.deb ...] -- COMMAND
#
# The packages are the kernel's image and, where they are apart, its modules, for example
#   linux-image-6.12.95+deb12-amd64 of bookworm-backports, or linux-image-unsigned-6.8.0-151-generic
#   and linux-modules-6.8.0-151-generic of Ubuntu.
# COMMAND is a line for bash, run as root in this folder; what it writes is gone afterwards. It may
# take WEIR_VM_SECONDS (default 600). Exit status: the command's.
# Needs: qemu-system-x86, busybox-static, cpio, kmod, zstd, xz-utils, binutils.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

packages=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do
    packages+=("$1")
    shift
done
if [ $# -lt 2 ] || [ ${#packages[@]} = 0 ]; then
    die "usage: scripts/other-kernel.sh PACKAGE.deb ... -- COMMAND"
fi
shift
for tool in qemu-system-x86_64 busybox cpio modprobe depmod zstd xz; do
    command -v "$tool" >/dev/null || die "$tool is missing: see the head of this script"
done

# Not below /tmp: the machine has one of its own.
work=$(mktemp -d /var/tmp/weir-kernel.XXXXXX)
trap 'rm -rf "$work"' EXIT
for package in "${packages[@]}"; do
    dpkg-deb -x "$package" "$work/kernel"
done
if [ -d "$work/kernel/usr/lib/modules" ] && [ ! -d "$work/kernel/lib" ]; then
    ln -s usr/lib "$work/kernel/lib"
fi
release=$(basename "$work"/kernel/lib/modules/*)
depmod -b "$work/kernel" "$release"

# A system to start with: what the files of this machine are reached through.
start=$work/start
mkdir -p "$start"/{bin,proc,sys,dev,mnt,new,modules}
cp "$(command -v busybox)" "$start/bin/busybox"
: >"$start/order"
for module in virtio_pci 9pnet_virtio 9p overlay; do
    modprobe -d "$work/kernel" -S "$release" --show-depends "$module" 2>/dev/null || true
done | awk '$1 == "insmod" && !seen[$2]++ { print $2 }' | while read -r file; do
    name=$(basename "$file")
    case $name in
    *.xz) xz -dc "$file" >"$start/modules/${name%.xz}" ;;
    *.zst) zstd -qdc "$file" >"$start/modules/${name%.zst}" ;;
    *) cp "$file" "$start/modules/$name" ;;
    esac
    name=${name%.xz}
    echo "${name%.zst}" >>"$start/order"
done
cat >"$start/init" <<EOF
#!/bin/busybox sh
b=/bin/busybox
\$b mount -t proc p /proc; \$b mount -t sysfs s /sys; \$b mount -t devtmpfs d /dev
while read m; do \$b insmod /modules/\$m; done </order
\$b mount -t 9p -o trans=virtio,version=9p2000.L,ro,cache=loose,msize=262144 root /mnt
\$b mkdir /over; \$b mount -t tmpfs -o size=2g t /over; \$b mkdir /over/upper /over/work
\$b mount -t overlay -o lowerdir=/mnt,upperdir=/over/upper,workdir=/over/work o /new
for d in proc sys dev; do \$b mount --move /\$d /new/\$d; done
exec \$b chroot /new /bin/bash $work/inside
EOF
chmod +x "$start/init"
cat >"$work/inside" <<EOF
export HOME=/root PATH=$PATH
mount -t tmpfs t /tmp; mount -t tmpfs r /run; mkdir -p /dev/pts /dev/shm /run/netns
mount -t devpts d /dev/pts; mount -t tmpfs t /dev/shm; mount -t bpf b /sys/fs/bpf
mount -t cgroup2 c /sys/fs/cgroup
mkdir -p /lib/modules; mount --bind $work/kernel/lib/modules /lib/modules
ip link set lo up
cd "$PWD"
uname -r
( $* )
echo "exit status \$?"
echo o >/proc/sysrq-trigger
sleep 60
EOF
(cd "$start" && find . | cpio -o -H newc 2>/dev/null | gzip -1) >"$work/initrd"

timeout "${WEIR_VM_SECONDS:-600}" \
    qemu-system-x86_64 -accel tcg,thread=multi -cpu max -smp 2 -m 4096 \
    -nographic -no-reboot -nic none \
    -kernel "$work/kernel/boot/vmlinuz-$release" -initrd "$work/initrd" \
    -append "console=ttyS0 quiet loglevel=3 panic=1 rdinit=/init" \
    -fsdev local,id=root,path=/,security_model=none,readonly=on,multidevs=remap \
    -device virtio-9p-pci,fsdev=root,mount_tag=root </dev/null | tee "$work/output"
status=$(tr -d '\r' <"$work/output" | sed -n 's/^exit status \([0-9]*\)$/\1/p' | tail -n 1)
[ -n "$status" ] || die "the machine ended before the command did"
exit "$status"
