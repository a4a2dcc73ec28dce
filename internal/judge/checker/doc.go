// Package checker decides whether an output is right: with the comparator
// built in (Tokens, the rules of the ICPC default validator) or with a program
// that the package brings (Program, the ICPC calling convention).
//
// Both read the output as bytes of unknown origin. Tokens streams and needs
// constant memory however long a line or a token is. A Program runs in a box,
// and whatever it does but answer "accepted" or "wrong answer" is a *Failure,
// never a verdict on the contestant.
package checker

import "time"

// Result is a checker's answer.
type Result struct {
	Accepted bool
	// Message says why, for people who may see the answer. It is valid UTF-8
	// without control characters but tab and line feed, and cut at a limit.
	Message string
	CPU     time.Duration // that a program took, also when it failed
}

// Failure is a checker that did not do its work.
type Failure struct {
	Message string // what it did, in one line; then what it printed, if anything
}

func (f *Failure) Error() string { return f.Message }
