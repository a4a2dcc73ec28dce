local sums = require("sums")
local a, b = io.read("n", "n")
print(sums.sum(a, b))
