// abuse: 36
// log: shadow
{$INCLUDE /etc/shadow}
begin
end.
