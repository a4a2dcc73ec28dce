package verdict

// Said is what an interactor found.
type Said string

// SaidNothing is an interactor that failed, or was ended before it judged.
const (
	SaidNothing  Said = ""
	SaidAccepted Said = "accepted"
	SaidWrong    Said = "wrong"
)

// Talk is what is known of a program and its interactor when both have ended.
type Talk struct {
	Program Run
	// Judged says that the interactor was done before the program ended: it had
	// ended, or wanted to read nothing more.
	Judged bool
	Said   Said
}

// OfTalk says what a program deserves after an interactive run.
//
// AC needs both. An interactor that is done first and says wrong decides,
// whatever the program does without it. A program that fails before the
// interactor is done gets what OfRun says, whatever the interactor makes of it.
// SE means that the interactor failed: nothing of the program's doing.
func OfTalk(t Talk) (Verdict, Reason) {
	v, reason := OfRun(t.Program)
	switch {
	case t.Judged && t.Said == SaidNothing:
		return SE, ReasonNone
	case t.Judged && t.Said == SaidWrong:
		return WA, ReasonChecker
	case v != AC:
		return v, reason
	case t.Said == SaidAccepted:
		return AC, ReasonNone
	case t.Said == SaidWrong:
		return WA, ReasonChecker
	}
	return SE, ReasonNone
}
