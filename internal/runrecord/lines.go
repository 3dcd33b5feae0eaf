package runrecord

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
)

// A chunk is decoded as one piece of work: large enough that handing it over costs nothing beside decoding it,
// small enough that what is in flight stays within a few MiB.
const chunkBytes = 256 << 10

// ReadSummaries reads like Read, made for files of gigabytes: it decodes on all cores, and decodes only what sums a
// trial up. Left out, and zero in the records, are Subscribers, Intervals, Conns, Checkpoints, Wakeups and Stages: on
// 2 cores it takes a third of the time of Read. What Read reports as bad, this does, and the other way round, but for
// a member of the wrong type inside what is left out.
//
// Each and bad are called on the caller's goroutine in the order of the lines, counted from 1. Records are the
// caller's to keep, but the maps in Config are shared by all that have the same, and not to be changed. All that was
// started has ended when it returns.
func ReadSummaries(r io.Reader, name string, each func(line int, r *Record) error, bad func(*SyntaxError)) error {
	workers := runtime.GOMAXPROCS(0)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()

	// Each chunk goes to the workers and, in the file's order, to the caller, who waits for it to be decoded. The
	// second channel bounds how many there are.
	work := make(chan *chunk)
	inOrder := make(chan *chunk, 2*workers)
	free := make(chan []byte, 3*workers+2)
	configs := &configCache{known: map[string]Config{}}
	var readErr error // written before inOrder is closed
	running.Go(func() {
		defer close(inOrder)
		defer close(work)
		readErr = split(ctx, r, free, func(c *chunk) bool {
			for _, to := range []chan<- *chunk{inOrder, work} {
				select {
				case to <- c:
				case <-ctx.Done():
					return false
				}
			}
			return true
		})
	})
	for range workers {
		running.Go(func() {
			for c := range work {
				c.decode(configs)
			}
		})
	}
	for c := range inOrder {
		<-c.decoded
		for i, line := range c.lines {
			switch {
			case line.err != nil:
				report(bad, name, c.first+i, line.err)
			case line.rec != nil:
				if err := each(c.first+i, line.rec); err != nil {
					return err
				}
			}
		}
		select {
		case free <- c.text[:0]:
		default:
		}
	}
	if readErr != nil {
		return fmt.Errorf("read %s: %w", name, readErr)
	}
	return nil
}

// chunk is some whole lines of a file.
type chunk struct {
	first   int // number of its first line
	text    []byte
	lines   []chunkLine
	decoded chan struct{} // closed by the worker
}

// chunkLine is one line, and then what became of it. An empty line has neither a record nor an error.
type chunkLine struct {
	from, to int // in the chunk's text
	rec      *Record
	err      error
}

// split cuts r into chunks and hands them on until yield says no. Buffers come from free where there are any.
func split(ctx context.Context, r io.Reader, free <-chan []byte, yield func(*chunk) bool) error {
	br := bufio.NewReaderSize(r, 64<<10)
	for n := 1; ; {
		c := &chunk{first: n, decoded: make(chan struct{})}
		select {
		case c.text = <-free:
		default:
			c.text = make([]byte, 0, chunkBytes+chunkBytes/4)
		}
		var err error
		for len(c.text) < chunkBytes && err == nil {
			err = c.appendLine(br)
		}
		n += len(c.lines)
		if len(c.lines) > 0 && !yield(c) {
			return ctx.Err()
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// appendLine reads one line to the end of the chunk. The error is of the reader: io.EOF after the last line.
func (c *chunk) appendLine(br *bufio.Reader) error {
	line := chunkLine{from: len(c.text)}
	for {
		part, err := br.ReadSlice('\n')
		if line.err == nil {
			c.text = append(c.text, part...)
			if len(c.text)-line.from > maxLine {
				line.err = errLongLine
				c.text = c.text[:line.from]
			}
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		line.to = len(c.text)
		c.lines = append(c.lines, line)
		return err
	}
}

var errLongLine = fmt.Errorf("longer than %d MiB", maxLine>>20)

func (c *chunk) decode(configs *configCache) {
	defer close(c.decoded)
	for i := range c.lines {
		line := &c.lines[i]
		if line.err != nil {
			continue
		}
		text := c.text[line.from:line.to]
		if c.first+i == 1 {
			text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
		}
		if text = bytes.TrimSpace(text); len(text) > 0 {
			line.rec, line.err = parseSummary(text, configs)
		}
	}
}

// summary decodes like a Record, but skips the members that it shadows.
type summary struct {
	Record
	Subscribers skipped `json:"subscribers"`
	Intervals   skipped `json:"intervals"`
	Conns       skipped `json:"conns"`
	Checkpoints skipped `json:"checkpoints"`
	Wakeups     skipped `json:"wakeups"`
	Stages      skipped `json:"stages"`
	Config      cached  `json:"config"`
}

// skipped takes any value and keeps none.
type skipped struct{}

func (*skipped) UnmarshalJSON([]byte) error { return nil }

// cached is a Config that is decoded once for all the records that have it. A session has a handful, and they are a
// fifth of its text.
type cached struct {
	Config
	cache *configCache
}

func (c *cached) UnmarshalJSON(text []byte) (err error) {
	c.Config, err = c.cache.decode(text)
	return err
}

// mostConfigs bounds the cache; what comes later is decoded each time.
const mostConfigs = 512

// configCache is shared by the workers.
type configCache struct {
	mu    sync.RWMutex
	known map[string]Config // by its text
}

func (c *configCache) decode(text []byte) (Config, error) {
	c.mu.RLock()
	config, ok := c.known[string(text)]
	c.mu.RUnlock()
	if ok {
		return config, nil
	}
	if err := json.Unmarshal(text, &config); err != nil {
		return Config{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.known) < mostConfigs {
		c.known[string(text)] = config
	}
	return config, nil
}

// ParseSummary decodes one line without the members that ReadSummaries leaves out.
func ParseSummary(line []byte) (*Record, error) {
	return parseSummary(line, &configCache{known: map[string]Config{}})
}

func parseSummary(line []byte, configs *configCache) (*Record, error) {
	s := summary{Config: cached{cache: configs}}
	err := json.Unmarshal(line, &s)
	if err == nil && s.Schema == Schema {
		s.Record.Config = s.Config.Config
		return &s.Record, nil
	}
	// What is wrong is worth a second pass: of a newer schema, any member may be of another type.
	var head struct {
		Schema string `json:"schema"`
	}
	if err := json.Unmarshal(line, &head); err != nil {
		return nil, err
	}
	if head.Schema != Schema {
		return nil, fmt.Errorf("schema %q: this build reads %q", head.Schema, Schema)
	}
	return nil, err
}
