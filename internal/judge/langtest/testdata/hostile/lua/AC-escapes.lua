-- abuse: 35 75
for _, path in ipairs { "/etc/shadow", "/proc/1/environ", "/proc/1/maps", "/dev/mem", "/box/x" } do
	local f = io.open(path, "r")
	if f and f:read(1) then print("read " .. path) end
end
if io.open("/box/x", "w") then print("wrote beside the program") end
if os.rename("/box", "/box2") or os.remove("/box/prog") then print("changed the program") end
local p = io.popen and io.popen("id -u") -- one process is all it may have
if p and (p:read("a") or ""):match("^0") then print("root") end
print(package.loadlib("/etc/shadow", "*") and "loaded" or "held")
