# abuse: 6
bomb() { bomb | bomb & }
# Beside it: a shell that cannot fork waits for 15 s and then gives up.
bomb &
while :; do :; done
