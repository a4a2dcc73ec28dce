unit sums;

interface

function sum(a, b: longint): longint;

implementation

function sum(a, b: longint): longint;
begin
  sum := a + b;
end;

end.
