package service

import (
	"context"
	"errors"
)

// Run is a whole broker process without its command line: it starts a broker, calls ready
// once, serves until ctx is done or the broker fails, drains, and returns the report. When
// hard is closed or delivers a value, the drain ends at once; nil means that only the
// setting bounds it.
func Run(ctx context.Context, o Options, ready func(*Service, Ready), hard <-chan struct{}) (Report, error) {
	s, err := New(o)
	if err != nil {
		return Report{}, err
	}
	r, err := s.Start(ctx)
	if err != nil {
		return Report{}, err
	}
	if ready != nil {
		ready(s, r)
	}
	select {
	case <-ctx.Done():
	case <-s.Done():
	}

	stop, cancel := context.WithCancel(context.Background())
	stopped := make(chan struct{})
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		select {
		case <-hard:
			cancel()
		case <-stopped:
		}
	}()
	// Asked before Stop: what ends the broker then is no failure.
	failure := s.Err()
	report, err := s.Stop(stop)
	close(stopped)
	<-watching
	cancel()
	return report, errors.Join(failure, err)
}
