# abuse: 35 57 56
for path in /dev/sda /dev/vda /dev/mem /dev/kmsg /dev/tty /dev/console /dev/ptmx /dev/fuse /dev/kvm /dev/net/tun /dev/loop-control /dev/log /sys /proc/kcore /proc/kallsyms; do
	if (: <"$path") 2>/dev/null && [ -s "$path" -o -c "$path" -o -d "$path" -o -b "$path" ]; then echo "$path can be opened"; fi
done
for path in /proc/sysrq-trigger /proc/sys/kernel/core_pattern /proc/sys/vm/drop_caches /proc/sys/kernel/panic /proc/self/oom_score_adj; do
	case $path in *oom*) value=-1000 ;; *) value=0 ;; esac
	(echo $value >"$path") 2>/dev/null && echo "wrote $path"
done
mknod w b 8 0 2>/dev/null && echo "made a device"
echo held
