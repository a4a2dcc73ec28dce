package judge

import (
	"bytes"

	"github.com/gavel-oj/gavel/internal/verdict"
)

// refusedWords are what runtimes say when an allocation is refused to them.
// Memory is no limit then: asking for far more than there may be is answered by
// the kernel, or by a runtime's own idea of its heap, before a page is touched.
var refusedWords = [][]byte{
	[]byte("bad_alloc"),              // C++
	[]byte("MemoryError"),            // Python, Ruby
	[]byte("OutOfMemory"),            // Java, C#
	[]byte("out of memory"),          // Go, JavaScript, PHP
	[]byte("memory allocation of"),   // Rust
	[]byte("not enough memory"),      // Lua
	[]byte("Cannot allocate memory"), // what the C library calls ENOMEM
	[]byte("eap overflow"),           // Pascal (Heap), Haskell (heap)
}

const longestRefusedWord = 22

// memoryHint is shown with an RE; it holds nothing of what the program wrote.
const memoryHint = "its error text says that it was refused memory"

// refusalWatch looks in a program's standard error for such words. It keeps
// only so much that a word in two pieces is found.
type refusalWatch struct {
	tail []byte
	seen bool
}

func (w *refusalWatch) Write(p []byte) (int, error) {
	if w.seen {
		return len(p), nil
	}
	text := append(w.tail, p...)
	for _, word := range refusedWords {
		w.seen = w.seen || bytes.Contains(text, word)
	}
	w.tail = append([]byte{}, text[max(0, len(text)-longestRefusedWord):]...)
	return len(p), nil
}

// hint explains an RE by it.
func (w *refusalWatch) hint(t *Test) {
	if w.seen && t.Verdict == verdict.RE && t.Message == "" {
		t.Message = memoryHint
	}
}
