package checker

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gavel-oj/gavel/internal/problem"
)

func TestDifferenceShowsThePlaceOnBothSides(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1<<20)
	tests := []struct {
		name           string
		options        problem.TokenOptions
		answer, output string
		want           *Difference
	}{
		{"equal", plain, "1 2\n", "1  2", nil},
		{
			"a token", plain, "1 2\n3 4 5\n", "1 2\n\n3  6 5", &Difference{
				Token: 4,
				Want:  Place{Line: 2, Column: 3, Before: "3 ", Here: "4", After: " 5"},
				Got:   Place{Line: 3, Column: 4, Before: "3  ", Here: "6", After: " 5"},
			},
		},
		{
			"the output ends", plain, "1 2", "1\n", &Difference{
				Token: 1,
				Want:  Place{Line: 1, Column: 3, Before: "1 ", Here: "2"},
				Got:   Place{Line: 2, Column: 1},
			},
		},
		{
			"no output", plain, "42", "", &Difference{
				Token: 1,
				Want:  Place{Line: 1, Column: 1, Here: "42"},
				Got:   Place{Line: 1, Column: 1},
			},
		},
		{
			"the answer ends", plain, "1", "1 2 3", &Difference{
				Token: 2,
				Want:  Place{Line: 1, Column: 2, Before: "1"},
				Got:   Place{Line: 1, Column: 3, Before: "1 ", Here: "2", After: " 3"},
			},
		},
		{
			"bytes are escaped", plain, "a", "\x1b[31m\\\"é", &Difference{
				Token: 1,
				Want:  Place{Line: 1, Column: 1, Here: "a"},
				Got:   Place{Line: 1, Column: 1, Here: `\x1b[31m\\"\xc3\xa9`},
			},
		},
		{
			"white space", spaces, "a b", "a \tb", &Difference{
				Token: 1,
				Want:  Place{Line: 1, Column: 2, Before: "a", Here: " ", After: "b"},
				Got:   Place{Line: 1, Column: 2, Before: "a", Here: ` \t`, After: "b"},
			},
		},
		{
			"a number", tol6, "1 2.5", "1 2.6", &Difference{
				Token: 2,
				Want:  Place{Line: 1, Column: 3, Before: "1 ", Here: "2.5"},
				Got:   Place{Line: 1, Column: 3, Before: "1 ", Here: "2.6"},
			},
		},
		{
			"deep in a long line", plain, long + "ab" + long, long + "cd" + long, &Difference{
				Token: 1,
				Want:  Place{Line: 1, Column: 1<<20 + 1, Before: "..." + long[:40], Here: "ab" + long[:58], After: long[:30] + "..."},
				Got:   Place{Line: 1, Column: 1<<20 + 1, Before: "..." + long[:40], Here: "cd" + long[:58], After: long[:30] + "..."},
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := mustTokens(t, tt.options).Difference(t.Context(), strings.NewReader(tt.answer), strings.NewReader(tt.output))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
