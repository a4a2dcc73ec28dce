// abuse: 75 X10
// A forbidden call from Pascal is refused by the same filter; then its own end.
// exit: 42
{$asmmode intel}
var r: int64;
begin
  {$ifdef cpux86_64}
  asm
    mov rax, 101
    xor rdi, rdi
    syscall
    mov r, rax
  end;
  if r <> -1 then halt(1);
  {$endif}
  halt(42);
end.
