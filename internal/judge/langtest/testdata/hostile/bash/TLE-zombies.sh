# abuse: 10 8
for i in 1 2 3 4 5 6 7 8 9; do (trap '' TERM; while :; do :; done) & done
exec sleep 1000
