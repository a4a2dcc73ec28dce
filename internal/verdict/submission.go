package verdict

// OfSubmission picks the verdict of a submission from its tests, in the
// package's order: that of the first failing test, whichever finished first.
//
// SE is the answer to a list that is not final: no tests at all, or a test
// that was skipped although none before it failed. So a lost test can never
// turn into AC.
func OfSubmission(tests []Verdict) Verdict {
	if len(tests) == 0 {
		return SE
	}
	i := FirstFailing(tests)
	if i < 0 {
		return AC
	}
	if !tests[i].OfTest() || tests[i] == Skipped {
		return SE
	}
	return tests[i]
}

// FirstFailing is the index of the first test that is not AC, or -1.
func FirstFailing(tests []Verdict) int {
	for i, v := range tests {
		if v != AC {
			return i
		}
	}
	return -1
}

// OfTest reports whether v may be the verdict of a single test. CE never is:
// nothing ran.
func (v Verdict) OfTest() bool {
	switch v {
	case AC, WA, TLE, MLE, OLE, RE, SE, Skipped:
		return true
	case CE:
	}
	return false
}

// Final reports whether v may be the verdict of a submission that could be
// judged: every verdict but SE, which is a fault of the system, and Skipped.
func (v Verdict) Final() bool {
	switch v {
	case AC, WA, TLE, MLE, OLE, RE, CE:
		return true
	case SE, Skipped:
	}
	return false
}
