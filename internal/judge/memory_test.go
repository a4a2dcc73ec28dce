package judge

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"
)

// TestMemoryIsGrantedInOrder plays random arrivals, ends and cancellations
// against a model: a queue that is served from its head.
func TestMemoryIsGrantedInOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		total := rapid.Int64Range(1, 20).Draw(rt, "total")
		type op struct {
			kind  int // 0, 1: ask, 2: release, 3: cancel
			bytes int64
			which int
		}
		ops := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) op {
			return op{rapid.IntRange(0, 3).Draw(rt, "kind"), rapid.Int64Range(0, total).Draw(rt, "bytes"), rapid.IntRange(0, 100).Draw(rt, "which")}
		}), 1, 60).Draw(rt, "ops")
		var failure string
		synctest.Test(t, func(t *testing.T) {
			b := &memoryBudget{total: total}
			type request struct {
				bytes   int64
				cancel  context.CancelFunc
				release func() // set when granted
				err     error
			}
			var all, queue, holding []*request // the model
			used := int64(0)
			serve := func() {
				for len(queue) > 0 && used+queue[0].bytes <= total {
					used += queue[0].bytes
					holding = append(holding, queue[0])
					queue = queue[1:]
				}
			}
			end := func(i int) {
				holding[i].release()
				used -= holding[i].bytes
				holding = slices.Delete(holding, i, i+1)
				serve()
				synctest.Wait()
			}
			check := func() bool {
				if b.used != used || b.used > total {
					failure = "the budget counts otherwise than the model, or too much"
				}
				for _, r := range all {
					if (r.release != nil) != slices.Contains(holding, r) && r.err == nil && (slices.Contains(holding, r) || slices.Contains(queue, r)) {
						failure = "a request is granted out of order, or forgotten"
					}
				}
				return failure == ""
			}
			for _, o := range ops {
				switch {
				case o.kind < 2:
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					r := &request{bytes: o.bytes, cancel: cancel}
					all, queue = append(all, r), append(queue, r)
					go func() { r.release, r.err = b.acquire(ctx, o.bytes) }()
					serve()
				case o.kind == 2 && len(holding) > 0:
					end(o.which % len(holding))
				case o.kind == 3 && len(queue) > 0:
					k := o.which % len(queue)
					r := queue[k]
					queue = slices.Delete(queue, k, k+1)
					r.cancel()
					serve()
					synctest.Wait()
					if !errors.Is(r.err, context.Canceled) {
						failure = "a cancelled request returned no error"
					}
				}
				synctest.Wait()
				if !check() {
					break
				}
			}
			for failure == "" && len(holding) > 0 { // all that wait are served in the end
				end(0)
				check()
			}
			for _, r := range all { // a failed model must not leave goroutines
				r.cancel()
			}
			if failure == "" && (len(queue) > 0 || b.used != 0) {
				failure = "somebody waits, or memory is lost"
			}
		})
		if failure != "" {
			rt.Fatal(failure)
		}
	})
}

func TestMoreMemoryThanThereIsIsAHostsFault(t *testing.T) {
	t.Parallel()
	b := &memoryBudget{total: 64 << 20}
	_, err := b.acquire(t.Context(), 65<<20)
	f, ok := errors.AsType[*Fault](err)
	if !ok || f.Blame != BlameHost || !strings.Contains(f.Message, "cannot give a program 65 MiB of memory: all that runs here at once may have 64 MiB") {
		t.Errorf("error %v", err)
	}
	if release, err := b.acquire(t.Context(), 64<<20); err != nil {
		t.Error(err)
	} else {
		release()
	}
}

func TestDefaultMemoryBudgetIsLessThanTheMachine(t *testing.T) {
	t.Parallel()
	if n := DefaultMemoryBudget(); n < 64<<20 {
		t.Errorf("a budget of %d bytes", n)
	}
}
