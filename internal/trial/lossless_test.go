package trial

import (
	"slices"
	"testing"

	"felix/internal/runrecord"
	"felix/internal/settings"
	"felix/internal/workload"
)

func TestLosslessOf(t *testing.T) {
	is := func(s string) *string { return &s }
	yes, no := true, false
	for _, tt := range []struct {
		why    string
		b      shedding
		client string
		want   runrecord.Lossless
	}{
		{"everything waits", shedding{is("block"), is("block"), &yes}, "block", runrecord.LosslessYes},
		{"the ingress sheds", shedding{is("block"), is("block"), &no}, "block", runrecord.LosslessAlmost},
		{"the subscriber queue drops", shedding{is("drop_new"), is("block"), &yes}, "block", runrecord.LosslessNo},
		{"the writer drops", shedding{is("block"), is("drop_old"), &yes}, "block", runrecord.LosslessNo},
		{"the client drops", shedding{is("block"), is("block"), &yes}, "drop_new", runrecord.LosslessNo},
		{"nothing is known of the broker", shedding{}, "block", runrecord.LosslessAlmost},
		{"nothing but that it drops", shedding{queue: is("drop_new")}, "block", runrecord.LosslessNo},
		{"a broker that does not say what its ingress does", shedding{is("block"), is("block"), nil}, "block", runrecord.LosslessAlmost},
	} {
		if got := losslessOf(tt.b, tt.client); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.why, got, tt.want)
		}
	}
	page := settings.Document{
		"subscriber_queue_policy": {Value: "block"}, "subscriber_lane_queue_policy": {Value: "block"}, "pub_ingress_wait": {Value: true},
	}
	if got := losslessOf(pageConfig(page), "block"); got != runrecord.LosslessYes {
		t.Errorf("a page that says so: %s, want yes", got)
	}
}

// The bench's own lossless must be what it is called, and taking one part of it away must be said at start.
func TestPoliciesAreWhatTheyAreCalled(t *testing.T) {
	for _, tt := range []struct {
		why  string
		c    workload.Case
		want runrecord.Lossless
		warn bool
	}{
		{"lossless", workload.Case{Payload: 64}, runrecord.LosslessYes, false},
		{"production", workload.Case{Payload: 64, Policy: workload.PolicyProduction}, runrecord.LosslessNo, false},
		{"lossless with much memory", workload.Case{Payload: 64, Profile: "high_memory"}, runrecord.LosslessYes, false},
		{"lossless, but for the ingress", workload.Case{Payload: 64, BrokerSet: map[string]string{"pub_ingress_wait": "false"}}, runrecord.LosslessAlmost, true},
		{"lossless, but for the writer", workload.Case{Payload: 64, BrokerSet: map[string]string{"subscriber_lane_queue_policy": "drop_new"}}, runrecord.LosslessNo, false},
	} {
		p, err := Spec{Case: tt.c}.Resolve()
		if err != nil {
			t.Fatal(err)
		}
		const text = "not lossless: unacked publishes can be dropped at checkpoint 4; set pub_ingress_wait"
		if p.Lossless != tt.want || slices.Contains(p.Warnings, text) != tt.warn {
			t.Errorf("%s: %s, warnings %q, want %s and the warning %v", tt.why, p.Lossless, p.Warnings, tt.want, tt.warn)
		}
		if p.Client.ClientSubQueuePolicy != "block" {
			t.Errorf("%s: the bench's own queue is %s", tt.why, p.Client.ClientSubQueuePolicy)
		}
	}
}
