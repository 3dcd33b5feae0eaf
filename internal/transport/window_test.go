package transport

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// A writer whose peer does not read is ahead by what the peer grants, to the byte: by the window of a stream, and over
// several streams by that of their connection.
func TestWindowsBoundWhatAWriterIsAhead(t *testing.T) {
	for _, tt := range []struct {
		conn, stream int64
		streams      int
		want         int64
	}{
		{1 << 20, 64 << 10, 1, 64 << 10},
		{1 << 20, 256 << 10, 1, 256 << 10},
		{128 << 10, 128 << 10, 4, 128 << 10},
		{512 << 10, 128 << 10, 8, 512 << 10},
	} {
		t.Run(fmt.Sprintf("%d of a connection, %d of each of %d streams", tt.conn, tt.stream, tt.streams), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dialled, accepted := newSimNetwork(t, time.Millisecond).pair(t, Config{}, Config{ConnRecvWindow: tt.conn, StreamRecvWindow: tt.stream})
				var ahead int64
				for range tt.streams {
					s, err := accepted.OpenUniStreamSync(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					if err := s.SetWriteDeadline(time.Now().Add(time.Second)); err != nil {
						t.Fatal(err)
					}
					n, err := s.Write(make([]byte, 2*tt.conn))
					if !errors.Is(err, os.ErrDeadlineExceeded) {
						t.Fatalf("write of twice the window: %v, want that it blocks", err)
					}
					ahead += int64(n)
				}
				if ahead != tt.want {
					t.Errorf("ahead by %d bytes, want %d", ahead, tt.want)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if _, err := dialled.AcceptUniStream(ctx); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
