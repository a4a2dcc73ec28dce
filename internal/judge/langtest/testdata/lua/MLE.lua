-- One string of 1 GiB, written in large pieces: the memory is reached with
-- little time, however slow the machine is at giving pages.
local piece = string.rep("x", 1 << 20)
print(#string.rep(piece, 1024))
