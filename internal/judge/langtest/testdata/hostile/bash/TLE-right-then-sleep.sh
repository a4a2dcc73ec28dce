# abuse: 2
# wall: 1s
# reason: idle
echo held
sleep 1000
