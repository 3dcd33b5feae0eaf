package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

// output is a file that appears under its name only when it is whole, so that a run that was killed or ran out of
// disk leaves no half of a table that reads like one. What is not a regular file, a pipe or a device, is written to
// as it is, and so is stdout, as "-".
type output struct {
	path   string
	stdout io.Writer
	file   *os.File // nil for stdout
	temp   bool     // the file has another name as yet
	beside bool     // there is another output, which a broken pipe here must not end
}

// openOutput opens path for writing; "" is no output, nil.
func openOutput(path string, stdout io.Writer) (*output, error) {
	switch path {
	case "":
		return nil, nil
	case "-":
		return &output{path: "stdout", stdout: stdout}, nil
	}
	o := &output{path: path}
	st, err := os.Stat(path)
	if err == nil && !st.Mode().IsRegular() {
		o.file, err = os.OpenFile(path, os.O_WRONLY, 0)
	} else {
		o.temp = true
		o.file, err = os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*.tmp")
		if err == nil {
			err = o.file.Chmod(0o644)
		}
	}
	if err != nil {
		o.discard()
		return nil, o.failed(err)
	}
	return o, nil
}

// failed names the output that an error is of, in the place of a temporary file's name.
func (o *output) failed(err error) error {
	var path *os.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	return fmt.Errorf("write %s: %w", o.path, err)
}

func (o *output) Write(p []byte) (int, error) {
	to := o.stdout
	if o.file != nil {
		to = o.file
	}
	n, err := to.Write(p)
	switch {
	case err == nil:
		return n, nil
	case o.beside && errors.Is(err, syscall.EPIPE):
		return len(p), nil // this reader has seen enough; the other output is wanted whole
	}
	return n, o.failed(err)
}

// keep ends the file and gives it its name.
func (o *output) keep() error {
	if o == nil || o.file == nil {
		return nil
	}
	err := o.file.Close()
	if err == nil && o.temp {
		err = os.Rename(o.file.Name(), o.path)
	}
	if err != nil {
		o.discard()
		return o.failed(err)
	}
	o.file = nil
	return nil
}

// discard ends the file and leaves none, unless it was kept.
func (o *output) discard() {
	if o == nil || o.file == nil {
		return
	}
	_ = o.file.Close() // its content is not wanted
	if o.temp {
		_ = os.Remove(o.file.Name())
	}
	o.file = nil
}
