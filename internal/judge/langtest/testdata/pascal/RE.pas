var a: longint;
begin
  a := 0;
  writeln(7 div a);
end.
