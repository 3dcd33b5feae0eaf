package client

import (
	"context"
	"fmt"
	"time"

	"felix/internal/wire"
)

// CachePut stores a value; scope.Stream is the cache's name. The value expires after ttl, rounded
// up to milliseconds, and never if ttl is 0. Cache requests of one Client are sent one at a time;
// CachePut blocks until the answer came or ctx is done. A refusal is a *BrokerError.
func (c *Client) CachePut(ctx context.Context, scope wire.Scope, key string, value []byte, ttl time.Duration) error {
	if ttl < 0 {
		return fmt.Errorf("cache put %s: ttl of %v: want 0 or more", scope, ttl)
	}
	_, err := c.cacheRequest(ctx, func(id uint64) wire.Message {
		put := wire.CachePut{Scope: scope, Key: key, Value: value, RequestID: &id}
		if ttl > 0 {
			ms := uint64((ttl + time.Millisecond - 1) / time.Millisecond)
			put.TTLMs = &ms
		}
		return put
	}, func(m wire.Message, id uint64) bool {
		ok, is := m.(wire.CacheOK)
		return is && ok.RequestID == id
	})
	if err != nil {
		return fmt.Errorf("cache put %s: %w", scope, err)
	}
	return nil
}

// CacheGet returns the value of a key, and false if there is none or it has expired. It blocks as
// CachePut does.
func (c *Client) CacheGet(ctx context.Context, scope wire.Scope, key string) ([]byte, bool, error) {
	m, err := c.cacheRequest(ctx, func(id uint64) wire.Message {
		return wire.CacheGet{Scope: scope, Key: key, RequestID: &id}
	}, func(m wire.Message, id uint64) bool {
		v, is := m.(wire.CacheValue)
		return is && v.RequestID != nil && *v.RequestID == id
	})
	if err != nil {
		return nil, false, fmt.Errorf("cache get %s: %w", scope, err)
	}
	value := m.(wire.CacheValue).Value
	return value, value != nil, nil
}

// cacheRequest sends one request with a request id and returns its answer, checked by want. The
// stream stays for the next request unless something went wrong.
func (c *Client) cacheRequest(ctx context.Context, request func(id uint64) wire.Message, want func(wire.Message, uint64) bool) (wire.Message, error) {
	e, err := c.events.first(ctx)
	if err != nil {
		return nil, err
	}
	select {
	case e.cacheTurn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-e.cacheTurn }()
	if e.cache == nil {
		if e.cache, err = c.openStream(ctx, e.tc); err != nil {
			e.cache = nil
			return nil, err
		}
	}
	e.cacheID++
	m, err := e.cache.ask(ctx, request(e.cacheID))
	if err == nil && !want(m, e.cacheID) {
		err = fmt.Errorf("answered with %q", m.Type())
		if refusal, ok := m.(wire.Error); ok {
			err = &BrokerError{refusal.Message}
		}
	}
	if err == nil {
		return m, nil
	}
	// An answer may still be on its way, or the broker may be closing the stream: a new one is
	// on a boundary for certain.
	abandon(e.cache.stream)
	e.cache = nil
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if isConnectionError(err) {
		err = &lostError{err}
	}
	return nil, err
}

// ask sends a message and reads the answer, within ctx.
func (s *authStream) ask(ctx context.Context, m wire.Message) (wire.Message, error) {
	stop := interrupt(ctx, s.stream.SetDeadline)
	defer stop()
	if _, err := s.stream.Write(wire.AppendMessage(nil, m)); err != nil {
		return nil, err
	}
	return s.reply()
}
