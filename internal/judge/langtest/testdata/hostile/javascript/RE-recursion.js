// abuse: 20
function f(a) { return f(a + 1) + 1 }
f(0);
