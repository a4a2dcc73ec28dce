puts gets.split.sum(&:to_i)
