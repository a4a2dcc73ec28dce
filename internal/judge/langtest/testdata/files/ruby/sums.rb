def total(words) = words.sum(&:to_i)
