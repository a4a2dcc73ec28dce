require_relative 'sums'
puts total(gets.split)
