# abuse: 6 7
# wall: 5s
loop do
  begin
    fork { Process.setsid }
  rescue SystemCallError
    nil
  end
end
