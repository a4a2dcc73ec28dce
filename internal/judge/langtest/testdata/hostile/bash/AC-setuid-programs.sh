# abuse: 54 55 X11 X12
# Each set-uid program of the system, asked for its help: none gives rights.
for program in /usr/bin/su /usr/bin/sudo /usr/bin/mount /usr/bin/umount /usr/bin/passwd /usr/bin/newgrp /usr/bin/chsh /usr/bin/fusermount /usr/bin/fusermount3; do
	[ -x "$program" ] && "$program" --help </dev/null >/dev/null 2>&1
done
cp /usr/bin/id own && chmod 4777 own
[ "$(./own -u)" = 1000 ] || echo "own set-uid program works"
[ "$(su -c 'id -u' </dev/null 2>/dev/null)" = "" ] || echo "su works"
mount -t tmpfs none /w 2>/dev/null && echo "mounted"
[ "$(id -u) $(id -G)" = "1000 1000" ] || echo "other ids: $(id)"
echo held
