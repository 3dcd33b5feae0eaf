package main

import (
	"bytes"
	"sync"
)

// keptOutput is how much of a failed trial's output is kept: its end, which is where the reason stands.
const keptOutput = 64 << 10

// tail keeps the last bytes written to it. Both streams of a trial go into one, in the order of their arrival.
type tail struct {
	mu   sync.Mutex
	buf  []byte
	lost bool // more was written than is kept
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	// Cut at twice the size, so that a flood is not moved about byte by byte.
	if len(t.buf) > 2*keptOutput {
		t.lost = true
		t.buf = append(t.buf[:0], t.buf[len(t.buf)-keptOutput:]...)
	}
	return len(p), nil
}

// Bytes returns the last 64 KiB.
func (t *tail) Bytes() []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.buf) > keptOutput {
		return bytes.Clone(t.buf[len(t.buf)-keptOutput:])
	}
	return bytes.Clone(t.buf)
}

// lastLine keeps the last line that is not empty: the record stands there. What is longer than any record is dropped.
type lastLine struct {
	current, last []byte
	tooLong       bool // current is
}

// maxRecordLine is far above any record: the reader of records refuses more.
const maxRecordLine = 8 << 20

func (l *lastLine) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		part, rest, ended := bytes.Cut(p, []byte("\n"))
		if len(l.current)+len(part) > maxRecordLine {
			l.tooLong, l.current = true, l.current[:0]
		}
		if !l.tooLong {
			l.current = append(l.current, part...)
		}
		if ended {
			l.end()
		}
		p = rest
	}
	return n, nil
}

func (l *lastLine) end() {
	if line := bytes.TrimSpace(l.current); len(line) > 0 {
		l.last = append(l.last[:0], line...)
	}
	l.current, l.tooLong = l.current[:0], false
}

// Line returns it; an unfinished line counts.
func (l *lastLine) Line() []byte {
	l.end()
	return l.last
}
