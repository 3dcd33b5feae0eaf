package answer

import (
	"errors"
	"fmt"
	"slices"
	"testing"
)

// script is a writer whose every write ends in the next of these errors.
type script []error

func (s *script) Write(p []byte) (int, error) {
	err := (*s)[0]
	*s = (*s)[1:]
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

// The first error is the cause, and no later write hides it, one that succeeds least of all. Whoever does look at each
// write sees its own error.
func TestFirstErrorIsRemembered(t *testing.T) {
	full, closed := errors.New("full"), errors.New("closed")
	for _, tt := range []struct {
		writes script
		want   error
	}{
		{script{}, nil},
		{script{nil, nil}, nil},
		{script{full}, full},
		{script{nil, full, closed, nil}, full},
		{script{closed, nil, full}, closed},
	} {
		to := slices.Clone(tt.writes)
		w := To(&to)
		for i, want := range tt.writes {
			if _, err := fmt.Fprintln(w, "a line"); err != want {
				t.Errorf("write %d of %v: %v, want %v", i, tt.writes, err, want)
			}
		}
		if got := w.Err(); got != tt.want {
			t.Errorf("after %v: Err() = %v, want %v", tt.writes, got, tt.want)
		}
	}
}
