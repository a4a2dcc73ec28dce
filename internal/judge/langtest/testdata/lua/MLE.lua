local all = {}
while true do all[#all + 1] = string.rep("x", 1 << 20) .. #all end
