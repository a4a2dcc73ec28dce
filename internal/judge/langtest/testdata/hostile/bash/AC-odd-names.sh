# abuse: 25 24 77
i=0
while [ $i -lt 20 ]; do
	mkdir d 2>/dev/null && cd d || break
	i=$((i + 1))
done
cd /w || exit
touch -- -rf '*' ' ' "$(printf 'new\nline')" "$(printf '\377\376')" '$(reboot)' nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn 2>/dev/null
chmod 0 d
chmod 0 .
echo held
