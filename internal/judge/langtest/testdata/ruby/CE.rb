if true
  puts (1
end
