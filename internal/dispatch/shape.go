package dispatch

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// shape is what decides who may take a job: jobs of one shape are
// interchangeable but for their order. There are few shapes however many jobs
// wait, so rules are looked at once a shape and profile, not once a job.
type shape struct {
	key      string
	lane     Lane
	language string
	needs    Needs
	batch    int64
	budget   int
	target   int64
	failedBy []int64
	problem  int64 // only when the problem has a brake, else 0
	brake    string
	waiting  jobHeap
	count    int // jobs that wait, without stale entries of the heap
	// passed counts jobs that went while this shape's first waited for nothing
	// but memory.
	passed int
}

func shapeKey(j *Job, problem int64) string {
	var s strings.Builder
	s.Grow(64)
	number := func(n int64) { s.WriteString(strconv.FormatInt(n, 36)); s.WriteByte(' ') }
	texts := func(list []string) {
		for _, t := range list {
			s.WriteString(strconv.Quote(t))
		}
		s.WriteByte(' ')
	}
	number(int64(j.Lane))
	s.WriteString(j.Language)
	s.WriteByte(' ')
	number(j.Needs.MemoryBytes)
	if j.Needs.Tight {
		s.WriteByte('t')
	}
	texts(j.Needs.Features)
	texts(j.Needs.Tags)
	number(j.Batch)
	number(int64(j.Budget))
	number(j.Target)
	number(problem)
	for _, w := range j.FailedBy {
		number(w)
	}
	return s.String()
}

// profile is what decides what a worker may take: workers of one profile are
// interchangeable but for what they hold just now.
type profile struct {
	key     string
	worker  Worker // one of them, for the rules
	workers int    // how many there are
	able    map[*shape]bool
	memory  map[int64]int // workers by their budget; who has none has all there is
	// idle are its workers with a waiting claim and a free slot, longest idle first.
	idle []*worker
	// quiet are its workers with a free slot and no claim: between two, or gone.
	quiet map[*worker]struct{}
}

func profileKey(w *Worker) string {
	var s strings.Builder
	list := func(texts []string) {
		sorted := slices.Sorted(slices.Values(texts))
		fmt.Fprintf(&s, "%q ", slices.Compact(sorted))
	}
	fmt.Fprintf(&s, "%d %q ", w.Rank, w.Pool)
	list(w.Languages)
	list(w.Features)
	list(w.Tags)
	fmt.Fprintf(&s, "%v %q %q", w.Lanes, w.Away, w.AsideLanguages) // maps print in key order
	return s.String()
}

func (p *profile) countMemory(w *Worker, by int) {
	has := memoryOf(w)
	if p.memory[has] += by; p.memory[has] == 0 {
		delete(p.memory, has)
	}
}

func memoryOf(w *Worker) int64 {
	if w.MemoryBytes <= 0 {
		return math.MaxInt64
	}
	return w.MemoryBytes
}

// refusal says why a worker cannot take jobs of a shape, whatever it does just
// now; "" when it can. It does not look at memory, Target, FailedBy and Slow,
// which differ between the workers of a profile or depend on who else is there.
func refusal(w *Worker, s *shape) string {
	if w.Away != "" && s.lane != Probe {
		return w.Away
	}
	if why := languageRefusal(w, s, s.language); why != "" {
		return why
	}
	if len(w.Lanes) > 0 && s.lane != Probe && !slices.Contains(w.Lanes, s.lane) {
		return fmt.Sprintf("it does not take the %s lane", s.lane)
	}
	for _, f := range s.needs.Features {
		if language, is := strings.CutPrefix(f, AlsoLanguage); is {
			if why := languageRefusal(w, s, language); why != "" {
				return why
			}
		} else if !slices.Contains(w.Features, f) {
			return "it does not support " + f
		}
	}
	for _, t := range s.needs.Tags {
		if !slices.Contains(w.Tags, t) {
			return "it does not have the tag " + t
		}
	}
	return ""
}

// languageRefusal says why a worker cannot take work in a language; none is ""
// and asks for nothing.
func languageRefusal(w *Worker, s *shape, language string) string {
	switch {
	case language == "":
		return ""
	case !slices.Contains(w.Languages, language):
		return "it does not offer " + language
	case s.lane != Probe:
		return w.AsideLanguages[language]
	}
	return ""
}

// memoryRefusal is apart, because memory differs between the workers of a profile.
func memoryRefusal(w *Worker, s *shape) string {
	return fmt.Sprintf("it has %d MiB of memory, the job needs %d MiB", w.MemoryBytes>>20, (s.needs.MemoryBytes+(1<<20)-1)>>20)
}

// takes is refusal with a memory.
func (p *profile) takes(s *shape) bool {
	able, known := p.able[s]
	if !known {
		able = refusal(&p.worker, s) == ""
		p.able[s] = able
	}
	return able
}

// entry is a job's place in the order of its shape.
type entry struct {
	class int
	turn  int64
	id    int64
}

func (e entry) compare(o entry) int {
	return cmp.Or(cmp.Compare(e.class, o.class), cmp.Compare(e.turn, o.turn), cmp.Compare(e.id, o.id))
}

// jobHeap is a binary heap of places, the first on top.
type jobHeap []entry

func (h *jobHeap) push(e entry) {
	*h = append(*h, e)
	s := *h
	for i := len(s) - 1; i > 0; {
		up := (i - 1) / 2
		if s[up].compare(s[i]) <= 0 {
			break
		}
		s[up], s[i] = s[i], s[up]
		i = up
	}
}

func (h *jobHeap) pop() {
	s := *h
	last := len(s) - 1
	s[0] = s[last]
	s = s[:last]
	*h = s
	h.sink(0)
}

func (h *jobHeap) sink(i int) {
	s := *h
	for {
		least := i
		for _, c := range [2]int{2*i + 1, 2*i + 2} {
			if c < len(s) && s[c].compare(s[least]) < 0 {
				least = c
			}
		}
		if least == i {
			return
		}
		s[i], s[least] = s[least], s[i]
		i = least
	}
}

// keep drops the places that are not wanted.
func (h *jobHeap) keep(wanted func(entry) bool) {
	*h = slices.DeleteFunc(*h, func(e entry) bool { return !wanted(e) })
	for i := len(*h)/2 - 1; i >= 0; i-- {
		h.sink(i)
	}
}
