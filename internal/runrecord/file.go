package runrecord

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Encode returns the record as one line, with its newline.
func (r *Record) Encode() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(r); err != nil {
		return nil, fmt.Errorf("encode run record: %w", err)
	}
	return b.Bytes(), nil
}

// Append adds the record to the file, creating it, and returns once it is on disk. If an earlier writer was
// killed in the middle of a line, the missing newline is added first, so that only the torn line is lost.
func Append(path string, r *Record) (err error) {
	line, err := r.Encode()
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("append run record: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return fmt.Errorf("append run record: %w", err)
	}
	if end > 0 {
		last := make([]byte, 1)
		if _, err := f.ReadAt(last, end-1); err != nil {
			return fmt.Errorf("append run record: %w", err)
		}
		if last[0] != '\n' {
			line = append([]byte{'\n'}, line...)
		}
	}
	if _, err := f.Write(line); err != nil {
		return fmt.Errorf("append run record: %w", err)
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("append run record: %w", err)
	}
	return nil
}

// SyntaxError is a line that is not a record of this schema. Reading goes on after it.
type SyntaxError struct {
	Name string // of the file, as the caller knows it
	Line int    // from 1
	Err  error
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("%s:%d: skipped: %v", e.Name, e.Line, e.Err)
}

func (e *SyntaxError) Unwrap() error { return e.Err }

// maxLine bounds what a reader holds of one line: far over any record, so that a stray binary file is an error
// and not a full memory.
const maxLine = 8 << 20

// Read calls each for every record in turn, and bad for every line that is not one; bad may be nil. A byte order
// mark and CRLF line ends are accepted, empty lines are nothing. The error is of reading, or the first that each
// returned.
func Read(r io.Reader, name string, each func(*Record) error, bad func(*SyntaxError)) error {
	br := bufio.NewReaderSize(r, 64<<10)
	for n := 1; ; n++ {
		line, tooLong, err := readLine(br)
		if n == 1 {
			line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
		}
		line = bytes.TrimSpace(line)
		switch {
		case tooLong:
			report(bad, name, n, fmt.Errorf("longer than %d MiB", maxLine>>20))
		case len(line) > 0:
			rec, perr := Parse(line)
			if perr != nil {
				report(bad, name, n, perr)
			} else if err := each(rec); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
	}
}

func report(bad func(*SyntaxError), name string, line int, err error) {
	if bad != nil {
		bad(&SyntaxError{Name: name, Line: line, Err: err})
	}
}

func readLine(br *bufio.Reader) (line []byte, tooLong bool, err error) {
	for {
		part, err := br.ReadSlice('\n')
		if !tooLong {
			line = append(line, part...)
			tooLong = len(line) > maxLine
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, tooLong, err
		}
	}
}

// Parse decodes one line.
func Parse(line []byte) (*Record, error) {
	var head struct {
		Schema string `json:"schema"`
	}
	if err := json.Unmarshal(line, &head); err != nil {
		return nil, err
	}
	if head.Schema != Schema {
		return nil, fmt.Errorf("schema %q: this build reads %q", head.Schema, Schema)
	}
	var r Record
	if err := json.Unmarshal(line, &r); err != nil {
		return nil, err
	}
	// Zero may be a factor that a bench of its time did not know; less than nothing is damage.
	if c := &r.Case; min(c.Payload, c.Batch, c.Fanout, c.Inflight, c.Publishers, c.Streams, c.PubConns, c.PubStreamsPerConn, c.SubConns) < 0 {
		return nil, fmt.Errorf("a case with a factor below 0: %.80q", c.Key)
	}
	return &r, nil
}

// WriteBeside writes a file into dir, creating it, and returns its entry for the record's files.
func WriteBeside(dir, name string, data []byte) (File, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return File{}, fmt.Errorf("write beside the record: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
		return File{}, fmt.Errorf("write beside the record: %w", err)
	}
	sum := sha256.Sum256(data)
	return File{Name: name, Bytes: int64(len(data)), SHA256: hex.EncodeToString(sum[:])}, nil
}
