// Package measure is what one trial measures with: the stamp in each payload, the clock behind
// it, and what every publisher (Sender) and every subscriber (Receiver) records of its messages.
//
// A Sender or a Receiver belongs to one goroutine and is cheap enough to be called for every
// message: no locks, no allocations, a few tens of nanoseconds. Its result is a plain struct that
// crosses a process boundary as one line of JSON. Merge makes rates, histograms and an interval
// series of all results together; Account makes the delivery ledger, in which every message that
// did not arrive exactly once is named or counted.
//
// It is arithmetic only: no sockets, no files, no goroutines, and nothing of the broker or the
// client.
package measure
