#!/bin/sh
# Runs a program on an emulated CPU with AVX-512, on a machine that has none:
#
#     cargo run -p tvmtune-tests --bin bits 2750 --fixed --points 3 --save target/code.json
#     sh tests/avx512.sh target/debug/bits --run target/code.json
#
# Arguments that are files are there under the same path, and nothing else is. Bochs takes a minute to
# start, and is a hundred times slower than a CPU. It needs Debian's packages below, which it installs if it
# may, and 2 GiB of memory.
#
# Bochs 2.7 knows no gather or scatter whose index is in zmm16 to zmm31, and reads memory that a mask leaves
# out: code that uses the former is killed, and guard pages are readable.
set -eu
program=$1
work=${CARGO_TARGET_DIR:-target}/avx512
packages="bochs bochs-term bochsbios vgabios genisoimage cpio isolinux syslinux-common busybox-static"
kernel=$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/.*Depends: //p')

dpkg --status $packages > /dev/null 2>&1 ||
    apt-get install --yes --no-install-recommends $packages > /dev/null
rm -rf "$work" && mkdir -p "$work/cd/isolinux" "$work/root/dev" "$work/root/proc" "$work/root/bin"
work=$(cd "$work" && pwd)
(cd "$work" && apt-get download "$kernel" > /dev/null 2>&1 && dpkg -x "$kernel"_*.deb kernel)

# The file system: the program, its libraries, its files.
for file in "$@" $(ldd "$program" | grep -o '/[^ ]*'); do
    [ -f "$file" ] || continue
    mkdir -p "$work/root/$(dirname "$file")" && cp -L "$file" "$work/root/$file"
done
cp "$(command -v busybox)" "$work/root/bin/busybox"
cat > "$work/guards.c" << 'END'
#include <sys/syscall.h>
#include <unistd.h>
int mprotect(void *at, unsigned long bytes, int protection) {
    return (int)syscall(SYS_mprotect, at, bytes, protection ? protection : 1);
}
END
cc -shared -fPIC -o "$work/root/guards.so" "$work/guards.c"
cat > "$work/root/init" << END
#!/bin/busybox sh
/bin/busybox mount -t devtmpfs dev /dev
/bin/busybox mount -t proc proc /proc
cd /
echo BEGIN
LD_PRELOAD=/guards.so $* 2>&1
echo "END \$?"
/bin/busybox sleep 3
/bin/busybox poweroff -f
END
chmod +x "$work/root/init"
(cd "$work/root" && find . | cpio -o -H newc --quiet) > "$work/cd/initrd"

# Bochs states a wrong size of compacted states, so the kernel does without.
cp "$work/kernel/boot"/vmlinuz-* "$work/cd/vmlinuz"
cp /usr/lib/ISOLINUX/isolinux.bin /usr/lib/syslinux/modules/bios/ldlinux.c32 "$work/cd/isolinux"
cat > "$work/cd/isolinux/isolinux.cfg" << END
default it
label it
kernel /vmlinuz
append initrd=/initrd console=ttyS0 quiet panic=-1 clearcpuid=321,323 lpj=1000000
END
genisoimage -quiet -o "$work/cd.iso" -b isolinux/isolinux.bin -c isolinux/boot.cat \
    -no-emul-boot -boot-load-size 4 -boot-info-table "$work/cd"
cat > "$work/bochsrc" << END
plugin_ctrl: unmapped=1, biosdev=1, extfpuirq=1, serial=1
display_library: rfb, options="timeout=0"
cpu: model=corei7_skylake_x, ips=50000000, reset_on_triple_fault=0
memory: guest=2048, host=2048
romimage: file=/usr/share/bochs/BIOS-bochs-latest
vgaromimage: file=/usr/share/bochs/VGABIOS-lgpl-latest
ata0: enabled=1, ioaddr1=0x1f0, ioaddr2=0x3f0, irq=14
ata0-master: type=cdrom, path=$work/cd.iso, status=inserted
boot: cdrom
clock: sync=none
com1: enabled=1, mode=file, dev=$work/output
log: $work/log
panic: action=fatal
END
echo c > "$work/debugger"
# Its debugger reads from the terminal as long as it runs.
mkfifo "$work/silence"
sleep 86400 > "$work/silence" &
silence=$!
bochs-bin -q -f "$work/bochsrc" -rc "$work/debugger" < "$work/silence" > "$work/console" 2>&1 || true
kill $silence
tr -d '\r' < "$work/output" | sed -n '/^BEGIN$/,/^END/p' | sed '1d;/^END/d;/^\[ /d'
tr -d '\r' < "$work/output" | grep -q '^END 0$'
