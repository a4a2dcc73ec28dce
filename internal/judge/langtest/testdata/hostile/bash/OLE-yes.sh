# abuse: 26
yes held
