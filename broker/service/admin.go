package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// adminGrace is how long a request that is being answered may hold up a stop.
const adminGrace = 2 * time.Second

// admin is the HTTP server of the pages that tell how the broker is doing.
type admin struct {
	url    string
	server *http.Server
	done   chan error // receives what Serve returned, once
}

// startAdmin listens on addr, which must resolve to loopback: settings refuse any other
// already, and this is the place that would expose the pages, so it looks for itself.
func startAdmin(ctx context.Context, addr string, h http.Handler) (*admin, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("admin http: %w", err)
	}
	if tcp, ok := l.Addr().(*net.TCPAddr); !ok || !tcp.IP.IsLoopback() {
		return nil, errors.Join(fmt.Errorf("admin http: %s is not a loopback address", l.Addr()), l.Close())
	}
	a := &admin{
		url:    "http://" + l.Addr().String(),
		server: &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute},
		done:   make(chan error, 1),
	}
	go func() { a.done <- a.server.Serve(l) }()
	return a, nil
}

// stop lets requests in progress finish, for a moment or until hard is closed.
func (a *admin) stop(hard <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(context.Background(), adminGrace)
	defer cancel()
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		_ = a.server.Shutdown(ctx) // what it leaves open, Close ends
	}()
	select {
	case <-finished:
	case <-hard:
		cancel()
		<-finished
	}
	err := a.server.Close()
	if served := <-a.done; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

func (s *Service) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /live", func(w http.ResponseWriter, _ *http.Request) { text(w, http.StatusOK, "ok") })
	mux.HandleFunc("GET /ready", func(w http.ResponseWriter, _ *http.Request) {
		if s.ready.Load() {
			text(w, http.StatusOK, "ok")
			return
		}
		text(w, http.StatusServiceUnavailable, "not accepting connections")
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.registry(), promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /stats", func(w http.ResponseWriter, _ *http.Request) {
		// Encoded whole before the first byte leaves, so that an error is one.
		data, err := json.Marshal(s.Document())
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(append(data, '\n')) // a client that went away
	})
	return mux
}

func text(w http.ResponseWriter, code int, line string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	_, _ = fmt.Fprintln(w, line) // a client that went away
}
