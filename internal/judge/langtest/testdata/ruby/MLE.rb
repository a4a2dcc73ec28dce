all = []
loop { all << 'x' * (1 << 20) }
