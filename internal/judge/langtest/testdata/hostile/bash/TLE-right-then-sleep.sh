# abuse: 2
# wall: 1s
# reason: idle
echo held
exec sleep 1000
