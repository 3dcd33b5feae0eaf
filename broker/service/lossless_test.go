package service_test

import (
	"slices"
	"testing"

	"felix/broker/service"
	"felix/internal/settings"
)

// A broker that blocks at 5 and 6 and sheds at 4 looks lossless in its configuration: it says so when it starts.
func TestAlmostLosslessWarnsAtStart(t *testing.T) {
	const text = "not lossless: unacked publishes can be dropped at checkpoint 4; set pub_ingress_wait"
	for _, tt := range []struct {
		why  string
		sets map[string]string
		want bool
	}{
		{"the defaults drop, and are not taken for lossless", nil, false},
		{"block at 5 and 6", map[string]string{"subscriber_queue_policy": "block", "subscriber_lane_queue_policy": "block"}, true},
		{"block at 5 alone", map[string]string{"subscriber_queue_policy": "block"}, false},
		{"and the ingress waits too", map[string]string{"subscriber_queue_policy": "block", "subscriber_lane_queue_policy": "block", "pub_ingress_wait": "true"}, false},
	} {
		layers := settings.Layers{More: []settings.Set{
			{Section: "broker", Key: "quic_bind", Value: "127.0.0.1:0"}, {Section: "broker", Key: "metrics_bind", Value: "127.0.0.1:0"},
		}}
		for k, v := range tt.sets {
			layers.More = append(layers.More, settings.Set{Section: "broker", Key: k, Value: v})
		}
		var b settings.Broker
		if err := settings.Load(&b, layers); err != nil {
			t.Fatal(err)
		}
		s, err := service.New(service.Options{Broker: &b})
		if err != nil {
			t.Fatal(err)
		}
		r, err := s.Start(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := slices.Contains(r.Warnings, text); got != tt.want {
			t.Errorf("%s: warnings %q, want %q among them: %v", tt.why, r.Warnings, text, tt.want)
		}
		if _, err := s.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
