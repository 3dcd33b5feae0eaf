package service_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"felix/broker/service"
	"felix/client"
	"felix/internal/wire"
)

// httpClient keeps no connection: an idle one would outlive its test.
var httpClient = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

func request(t *testing.T, method, url string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := httpClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func TestAdminPages(t *testing.T) {
	const batches, size = 5, 8
	o, token := newOptions(t)
	s, r := start(t, o)
	c := dial(t, s, r, token, nil)
	sub, err := c.Subscribe(t.Context(), latency, client.SubscribeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	publish(t, c, batches, size)
	for got := 0; got < batches*size; {
		events, err := sub.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got += len(events.Payloads)
	}

	for _, tt := range []struct {
		method, path string
		code         int
		body         string
	}{
		{"GET", "/live", 200, "ok\n"},
		{"GET", "/ready", 200, "ok\n"},
		{"HEAD", "/live", 200, ""},
		{"POST", "/live", 405, ""},
		{"GET", "/", 404, ""},
		{"GET", "/debug/pprof/", 404, ""},
	} {
		code, body := request(t, tt.method, r.AdminURL+tt.path)
		if code != tt.code || tt.body != "" && body != tt.body {
			t.Errorf("%s %s: %d %q, want %d %q", tt.method, tt.path, code, body, tt.code, tt.body)
		}
	}

	_, page := request(t, "GET", r.AdminURL+"/metrics")
	for _, line := range []string{
		`felix_publish_requests_total{result="accepted"} 40`,
		`felix_publish_requests_total{result="rejected"} 0`,
		`felix_publish_bytes_total 40960`,
		`felix_subscribe_requests_total{result="accepted"} 1`,
		`felix_subscribe_requests_total{result="refused"} 0`,
		`felix_subscribe_bytes_total 40960`,
		`felix_subscribe_dropped_total{policy="drop_new"} 0`,
		`felix_sub_queue_len 0`, // exactly 0 when idle
		`felix_sub_queue_held_bytes 0`,
		`felix_broker_ingress_waited_total 0`,
		`felix_broker_ingress_wait_seconds_count 0`,
		`felix_broker_ingress_queue_depth 0`,
		`felix_broker_ingress_held_bytes 0`,
		`felix_broker_checkpoint_blocked_seconds_count{checkpoint="3"} 0`,
		`felix_broker_checkpoint_blocked_seconds_bucket{checkpoint="5",le="0.001"} 0`,
		`felix_sub_queue_dropped_total{policy="drop_new"} 0`,
		`felix_sub_lane_queue_len 0`,
		`felix_sub_egress_held_bytes 0`,
		`felix_broker_checkpoint_blocked_seconds_count{checkpoint="6"} 0`,
		`felix_conn_packets_sent{role="broker"} [1-9]`,
		`felix_conn_packets_lost{role="broker"} `,
		`felix_conn_cwnd_bytes{role="broker"} [1-9]`,
		`felix_conn_rtt_seconds{role="broker"} (0\.0*)?[1-9]`,
		`felix_conn_open{role="broker"} [1-9]`,
		`go_goroutines [1-9]`,
	} {
		if !regexp.MustCompile(`(?m)^` + line).MatchString(page) {
			t.Errorf("/metrics has no line %q", line)
		}
	}
	if strings.Contains(page, "127.0.0.1") || strings.Contains(page, "t1") {
		t.Error("/metrics has an address or a tenant for a label")
	}

	code, page := request(t, "GET", r.AdminURL+"/stats")
	var doc service.Document
	if err := json.Unmarshal([]byte(page), &doc); err != nil || code != 200 {
		t.Fatalf("/stats: %d, %v", code, err)
	}
	if doc.Broker.Flow.PublishedMsgs != batches*size || len(doc.Broker.Subscriptions) != 1 {
		t.Errorf("/stats: broker %+v", doc.Broker)
	}
	if sub := doc.Broker.Subscriptions[0]; sub.ID == 0 && sub.Remote == "" || sub.Written != batches*size {
		t.Errorf("/stats: subscription %+v", sub)
	}
	if len(doc.Conns) == 0 || doc.Conns[0].Role != "broker" || doc.Conns[0].CwndBytes == 0 {
		t.Errorf("/stats: connections %+v", doc.Conns)
	}
	if m := doc.Memory; doc.MemorySum != m.Sum() || m.Connections == 0 || m.Subscriptions != 1 || m.Subscribers != 1 || m.Egress() != (64+256)<<20 {
		t.Errorf("/stats: memory %+v, sum %d", m, doc.MemorySum)
	}
	if o := doc.Config["broker"]["streams"]; o.From != "flag" {
		t.Errorf("/stats: streams come from %q, want flag", o.From)
	}
	if doc.Config["transport"]["conn_recv_window"].From != "default" {
		t.Error("/stats: no transport settings")
	}
	if m := doc.Memory; m.Connections == 0 || m.Subscriptions != 1 || m.IngressBytes != 64<<20 || m.Sum() != doc.MemorySum {
		t.Errorf("/stats: memory %+v, sum %d", m, doc.MemorySum)
	}
	if doc.Process.GOMAXPROCS == 0 || doc.Process.Allocs == 0 || doc.Process.UserNs == nil {
		t.Errorf("/stats: process %+v", doc.Process)
	}
}

// While a broker drains it is alive and not ready, and its numbers can still be read.
func TestReadyDuringDrain(t *testing.T) {
	s, r := stuck(t, "shutdown_drain_timeout_ms=3600000")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		if _, err := s.Stop(ctx); err != nil {
			t.Error(err)
		}
	}()
	for {
		if code, _ := request(t, "GET", r.AdminURL+"/ready"); code == http.StatusServiceUnavailable {
			break
		}
		if t.Context().Err() != nil {
			t.Fatal("/ready stayed 200 while the broker was stopping")
		}
	}
	if code, _ := request(t, "GET", r.AdminURL+"/live"); code != 200 {
		t.Errorf("/live is %d during the drain", code)
	}
	_, page := request(t, "GET", r.AdminURL+"/metrics")
	if !regexp.MustCompile(`(?m)^felix_sub_lane_queue_len [1-9]`).MatchString(page) {
		t.Error("the queue is stuck and felix_sub_lane_queue_len does not say so")
	}
	cancel()
	<-stopped
}

// What finds no room at checkpoint 4 is counted by reason and tenant, dropped and rejected apart.
func TestIngressMetrics(t *testing.T) {
	o, token := newOptions(t, "subscriber_queue_policy=block", "subscriber_queue_capacity=1",
		"subscriber_lane_queue_policy=block", "subscriber_lane_queue_depth=1", "pub_queue_depth=1", "pub_workers_per_conn=1")
	s, r := start(t, o)
	c := dial(t, s, r, token, func(cfg *client.Config) {
		cfg.Transport.StreamRecvWindow, cfg.Transport.ConnRecvWindow = 64<<10, 128<<10
	})
	if _, err := c.Subscribe(t.Context(), latency, client.SubscribeOptions{}); err != nil {
		t.Fatal(err)
	}
	p, err := c.NewPublisher(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	payload := [][]byte{make([]byte, 100<<10)}
	for range 30 {
		if _, err := p.Publish(t.Context(), latency, payload, wire.AckNone); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	ack, err := p.Publish(t.Context(), latency, payload, wire.AckPerBatch)
	if err != nil {
		t.Fatal(err)
	}
	if err := ack.Wait(t.Context()); err == nil || !strings.Contains(err.Error(), "overloaded: publish_queue_full") {
		t.Errorf("acked: %v, want overloaded", err)
	}
	_, page := request(t, "GET", r.AdminURL+"/metrics")
	for _, line := range []string{
		`felix_broker_ingress_dropped_total{checkpoint="4",reason="items",tenant="t1"} [1-9]`,
		`felix_broker_ingress_rejected_total{checkpoint="4",reason="items",tenant="t1"} 1`,
		`felix_broker_ingress_queue_depth 1`,
		`felix_broker_ingress_held_bytes [1-9]`,
	} {
		if !regexp.MustCompile(`(?m)^` + line).MatchString(page) {
			t.Errorf("/metrics has no line %q", line)
		}
	}
}
