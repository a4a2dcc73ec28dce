uses sums;
var a, b: longint;
begin
  readln(a, b);
  writeln(sum(a, b));
end.
