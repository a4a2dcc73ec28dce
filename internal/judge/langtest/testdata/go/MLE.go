package main

func main() {
	var all [][]byte
	for {
		p := make([]byte, 1<<20)
		for i := range p {
			p[i] = 1
		}
		all = append(all, p)
	}
}
