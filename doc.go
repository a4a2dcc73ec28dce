// Package gavel is the root of the module and holds no code: its test,
// arch_test.go, keeps the rules on which package may import which.
//
// gavel is the judging back end of an online judge: submissions in, verdicts
// out, nothing lost. Start with README.md, then docs/README.md for the map.
package gavel
