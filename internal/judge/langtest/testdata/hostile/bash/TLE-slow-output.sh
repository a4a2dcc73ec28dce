# abuse: 3
# wall: 1s
# reason: idle
mkfifo never
exec 9<>never
pause=0
while :; do
	printf h
	pause=$((pause * 2 + 1))
	read -r -t 0.$pause <&9
done
