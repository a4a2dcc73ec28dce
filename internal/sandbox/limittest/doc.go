// Package limittest holds tests of what programs near their limits, or past
// several of them, are told: that verdict and figures never contradict each
// other, and that one limit is never taken for another. They take their time,
// which is why they have a package of their own; there is no code in it.
package limittest
