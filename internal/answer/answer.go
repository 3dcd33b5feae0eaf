// Package answer is what a command prints on stdout, and whether it could. It knows no exit codes and prints no errors:
// those are the command's.
package answer

import "io"

// Writer passes on what is written to it and remembers the first error, so that a command may print without a check a
// line and ask once, at its end: an answer lost to a full disk or a closed pipe must not pass for one.
type Writer struct {
	w   io.Writer
	err error
}

// To returns a Writer to w. It holds nothing back.
func To(w io.Writer) *Writer { return &Writer{w: w} }

func (w *Writer) Write(p []byte) (int, error) {
	n, err := w.w.Write(p)
	if w.err == nil {
		w.err = err
	}
	return n, err
}

// Err returns the first error of all writes, as it came.
func (w *Writer) Err() error { return w.err }
