# abuse: 3
# wall: 1s
# reason: idle
pause=0
while :; do
	printf h
	pause=$((pause * 2 + 1))
	sleep 0.$pause
done
