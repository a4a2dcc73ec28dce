package verdict

import "testing"

func TestOfTalk(t *testing.T) {
	t.Parallel()
	const sigpipe = 13
	crashed := clean(func(r *Run) { r.Signal = 11 })
	code := clean(func(r *Run) { r.ExitCode = 1 })
	waited := clean(func(r *Run) { r.Fired, r.CPU, r.Wall = LimitWall, 5*ms, 3001*ms })
	flooded := clean(func(r *Run) { r.Fired, r.OutputBytes = LimitOutput, r.OutputLimit+1 })
	broken := clean(func(r *Run) { r.Signal = sigpipe })
	tests := []struct {
		name   string
		talk   Talk
		want   Verdict
		reason Reason
	}{
		{"both are content", Talk{clean(nil), false, SaidAccepted}, AC, ReasonNone},
		{"both are content, the interactor first", Talk{clean(nil), true, SaidAccepted}, AC, ReasonNone},
		{"the program leaves, the interactor complains", Talk{clean(nil), false, SaidWrong}, WA, ReasonChecker},
		{"the interactor complains and leaves", Talk{clean(nil), true, SaidWrong}, WA, ReasonChecker},
		{"the interactor complains and leaves, then the program crashes", Talk{crashed, true, SaidWrong}, WA, ReasonChecker},
		{"the interactor complains and leaves, then the program waits for ever", Talk{waited, true, SaidWrong}, WA, ReasonChecker},
		{"the interactor complains and leaves, then the program floods", Talk{flooded, true, SaidWrong}, WA, ReasonChecker},
		{"the interactor complains and leaves, then the pipe breaks", Talk{broken, true, SaidWrong}, WA, ReasonChecker},
		{"accepted, then the program crashes", Talk{crashed, true, SaidAccepted}, RE, ReasonSignal},
		{"accepted, then the program waits for ever", Talk{waited, true, SaidAccepted}, TLE, ReasonIdle},
		{"the program crashes, the interactor complains", Talk{crashed, false, SaidWrong}, RE, ReasonSignal},
		{"the program crashes, the interactor is content", Talk{crashed, false, SaidAccepted}, RE, ReasonSignal},
		{"the program ends with a code, the interactor was ended", Talk{code, false, SaidNothing}, RE, ReasonExit},
		{"both wait", Talk{waited, false, SaidNothing}, TLE, ReasonIdle},
		{"the program floods", Talk{flooded, false, SaidNothing}, OLE, ReasonOutput},
		{"the interactor crashes", Talk{clean(nil), true, SaidNothing}, SE, ReasonNone},
		{"the interactor crashes, then the program", Talk{crashed, true, SaidNothing}, SE, ReasonNone},
		{"the program leaves, the interactor crashes", Talk{clean(nil), false, SaidNothing}, SE, ReasonNone},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if v, reason := OfTalk(tt.talk); v != tt.want || reason != tt.reason {
				t.Errorf("OfTalk = %s %q, want %s %q", v, reason, tt.want, tt.reason)
			}
		})
	}
}
