// Package chart draws what was measured, as SVG and PNG that can be read at the width of a README (830 px), by people
// who do not see every colour, on light pages and dark ones.
//
// Its input is plain structs of its own: numbers that are already judged. A value is drawn only where there is one:
// zero, "not a number", "all trials invalid" and "not measured" are four marks beside the plot, never points at the
// bottom of an axis. A figure without anything to draw is skipped, and Session says why. Each picture carries where
// its numbers come from (session, commit, host, n) and how its load shape wants it read.
//
// It computes no statistics and reads no files; FromCells, FromRun and their like put the bench's records into its
// structs.
package chart
