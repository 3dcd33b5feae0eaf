// Package stat holds the statistics of the bench: numbers in, numbers out. It knows no records, clocks or files.
//
// The unit is the trial: one figure of one trial is one sample, never a message. Every function names the source of
// its formula. Values that are not numbers are no measurements and are left out; what is left of n says so.
package stat
