# abuse: 12 13
# Signals to the parent, to process 1 and to everybody: only its own children may go.
sleep 100 &
trap '' TERM HUP INT
for target in $PPID 1 -1; do
	for signal in TERM HUP INT STOP KILL; do
		kill -$signal $target 2>/dev/null
	done
done
wait 2>/dev/null
echo held
