package load

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"felix/internal/runrecord"
)

// Full reads the given lines of a session's records whole, with all that Read leaves out. Lines are counted from 1;
// one that is not there, or no longer a record, is an error.
func Full(s *runrecord.Session, lines []int) (map[int]*runrecord.Record, error) {
	want := map[int]bool{}
	for _, n := range lines {
		want[n] = true
	}
	out := map[int]*runrecord.Record{}
	path := s.RecordsPath()
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, 1<<20)
	for n := 1; len(out) < len(want); n++ {
		line, err := readLine(r, want[n])
		if want[n] && len(line) > 0 {
			record, parseErr := runrecord.Parse(line)
			if parseErr != nil {
				return nil, fmt.Errorf("%s:%d: %w", path, n, parseErr)
			}
			out[n] = record
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	if len(out) < len(want) {
		return nil, fmt.Errorf("%s: has changed while it was read", path)
	}
	return out, nil
}

// readLine reads to the end of the line, and keeps it if it is wanted: most are not, and may be long.
func readLine(r *bufio.Reader, keep bool) (line []byte, err error) {
	for {
		part, err := r.ReadSlice('\n')
		if keep {
			line = append(line, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return bytes.TrimPrefix(bytes.TrimRight(line, "\r\n"), []byte("\xef\xbb\xbf")), err
		}
	}
}
