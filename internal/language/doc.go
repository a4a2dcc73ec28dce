// Package language knows the programming languages: how to compile and run a
// source, which limits and factors go with it, and what a self-test must
// print. The knowledge is data (one YAML file per language, embedded); this
// package reads it strictly and answers questions. It does no I/O, so the
// arbiter, the command line and the judge engine share it.
package language
