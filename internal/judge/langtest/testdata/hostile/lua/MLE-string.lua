-- abuse: 17
local all, s = {}, string.rep("x", 1 << 20)
while true do all[#all + 1] = s .. #all end
