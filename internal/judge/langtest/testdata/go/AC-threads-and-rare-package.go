package main

import (
	"container/heap"
	"encoding/base32"
	"fmt"
	"runtime"
	"sync"
)

type ints []int

func (h ints) Len() int           { return len(h) }
func (h ints) Less(i, j int) bool { return h[i] < h[j] }
func (h ints) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *ints) Push(x any)        { *h = append(*h, x.(int)) }
func (h *ints) Pop() any          { old := *h; x := old[len(old)-1]; *h = old[:len(old)-1]; return x }

func main() {
	var a, b int
	fmt.Scan(&a, &b)
	var wg sync.WaitGroup
	for i := 0; i < 16; i++ {
		wg.Add(1)
		go func() { runtime.LockOSThread(); runtime.Gosched(); wg.Done() }()
	}
	wg.Wait()
	h := &ints{}
	heap.Push(h, a+b)
	_ = base32.StdEncoding.EncodeToString([]byte("x"))
	fmt.Println(heap.Pop(h))
}
