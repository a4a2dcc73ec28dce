// Package config resolves the settings of a program, the same way for every
// program of gavel: a flag wins over the environment, the environment over the
// file, the file over the default. The file is YAML and strict: a key that does
// not exist is an error that names the line. A variable that looks like a
// setting and is none is a warning.
//
// A program says what settings it has (a Set) and gets their values with where
// each came from; all have been checked, so reading one cannot fail.
package config
