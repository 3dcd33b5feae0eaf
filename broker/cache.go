package broker

import (
	"container/list"
	"sync"
	"time"

	"felix/internal/wire"
)

const (
	// cacheMaxBytes bounds all caches together: keys, values and cacheEntryBytes for each entry.
	// When it is reached, what was used longest ago goes first.
	cacheMaxBytes   = 64 << 20
	cacheEntryBytes = 128
)

// cache is the values of all registered caches.
type cache struct {
	scopes map[wire.Scope]bool // fixed

	mu      sync.Mutex
	entries map[cacheKey]*list.Element
	recent  list.List // of *cacheEntry; front: used last
	bytes   int
}

type cacheKey struct {
	scope wire.Scope
	key   string
}

type cacheEntry struct {
	cacheKey
	value   []byte
	expires time.Time // zero: never
}

func (e *cacheEntry) bytes() int { return len(e.key) + len(e.value) + cacheEntryBytes }

func newCache(scopes []wire.Scope) *cache {
	c := &cache{scopes: make(map[wire.Scope]bool, len(scopes)), entries: make(map[cacheKey]*list.Element)}
	for _, s := range scopes {
		c.scopes[s] = true
	}
	return c
}

// put sets a value, for ttl milliseconds if ttl is not nil. It reports false for one that is
// larger than all caches may be.
func (c *cache) put(k cacheKey, value []byte, ttl *uint64) bool {
	e := &cacheEntry{cacheKey: k, value: value}
	if e.bytes() > cacheMaxBytes {
		return false
	}
	if ttl != nil {
		// Beyond a century a time.Duration would overflow, and nobody could tell.
		e.expires = time.Now().Add(time.Duration(min(*ttl, 100*365*24*3600*1000)) * time.Millisecond)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if old := c.entries[k]; old != nil {
		c.remove(old)
	}
	c.entries[k] = c.recent.PushFront(e)
	c.bytes += e.bytes()
	for c.bytes > cacheMaxBytes {
		c.remove(c.recent.Back())
	}
	return true
}

// get returns a value, or nil if it is missing or has expired. The caller must not change it.
func (c *cache) get(k cacheKey) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	el := c.entries[k]
	if el == nil {
		return nil
	}
	e := el.Value.(*cacheEntry)
	if !e.expires.IsZero() && !time.Now().Before(e.expires) {
		c.remove(el)
		return nil
	}
	c.recent.MoveToFront(el)
	return e.value
}

func (c *cache) remove(el *list.Element) {
	e := c.recent.Remove(el).(*cacheEntry)
	delete(c.entries, e.cacheKey)
	c.bytes -= e.bytes()
}

func (s *clientStream) cachePut(m wire.CachePut) error {
	if stop, err := s.cacheRefused(ActionCacheWrite, m.Scope); stop {
		return err
	}
	value := m.Value
	if value == nil {
		value = []byte{} // an empty value is not a missing one
	}
	if !s.conn.broker.cache.put(cacheKey{m.Scope, m.Key}, value, m.TTLMs) {
		s.replies.message(wire.Error{Message: "cache value too large"})
		return nil
	}
	if m.RequestID == nil {
		s.replies.message(wire.OK{})
		return errFinished
	}
	s.replies.message(wire.CacheOK{RequestID: *m.RequestID})
	return nil
}

func (s *clientStream) cacheGet(m wire.CacheGet) error {
	if stop, err := s.cacheRefused(ActionCacheRead, m.Scope); stop {
		return err
	}
	s.replies.message(wire.CacheValue{
		Scope: m.Scope, Key: m.Key,
		Value:     s.conn.broker.cache.get(cacheKey{m.Scope, m.Key}),
		RequestID: m.RequestID,
	})
	if m.RequestID == nil {
		return errFinished
	}
	return nil
}

// cacheRefused answers a request on a cache that does not exist or is not the client's.
func (s *clientStream) cacheRefused(action Action, scope wire.Scope) (stop bool, err error) {
	if r := s.allowed(action, scope); r != nil {
		return true, r
	}
	if !s.conn.broker.cache.scopes[scope] {
		s.replies.message(wire.Error{Message: "cache scope not found: " + scope.String()})
		return true, nil
	}
	return false, nil
}
