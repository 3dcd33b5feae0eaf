package broker

import (
	"reflect"
	"strings"
	"testing"

	"felix/internal/wire"
)

func TestConfigResolve(t *testing.T) {
	zero, err := Config{}.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	// Every field has a default, but the lists, SingleEvent, the policy and Trace, whose zeros mean
	// something.
	v := reflect.ValueOf(zero)
	for i := range v.NumField() {
		switch name := v.Type().Field(i).Name; name {
		case "Streams", "Caches", "SingleEvent", "SubscriberQueuePolicy", "SubscriberLaneQueuePolicy", "PubIngressWait", "AckOnCommit", "CoreShards", "Trace":
		default:
			if v.Field(i).IsZero() {
				t.Errorf("%s has no default", name)
			}
		}
	}
	again, err := zero.Resolve()
	if err != nil || !reflect.DeepEqual(again, zero) {
		t.Errorf("resolved twice: %+v, %v", again, err)
	}
	for _, tt := range []struct {
		cfg  Config
		want string // in the error
	}{
		{Config{MaxFrameBytes: -1}, "max frame"},
		{Config{MaxFrameBytes: 100}, "max frame"},
		{Config{EventBatchMaxEvents: -1}, "event batch max events"},
		{Config{EventBatchMaxBytes: -1}, "event batch max bytes"},
		{Config{SubscriberQueueCapacity: -1}, "subscriber queue capacity"},
		{Config{SubscriberQueueMaxBytes: -1}, "subscriber queue max bytes"},
		{Config{SubscriberQueuePolicy: 3}, "drop_new, drop_old or block"},
		{Config{PubConnInflightBytes: -1}, "publish inflight bytes per connection"},
		{Config{PubInflightBytes: -1}, "publish inflight bytes"},
		{Config{PubQueueDepth: -1}, "publish queue depth"},
		{Config{PubWorkers: -1}, "publish workers"},
		{Config{PublishQueueWait: -1}, "publish queue wait"},
		{Config{AckWait: -1}, "ack wait"},
		{Config{CoreShards: -1}, "core shards"},
		{Config{SubscriberQueueMaxBytesTotal: -1}, "subscriber queue max bytes total"},
		{Config{SubscriberLaneQueueDepth: -1}, "subscriber lane queue depth"},
		{Config{SubscriberLaneQueuePolicy: 3}, "drop_new, drop_old or block"},
		{Config{SubscriberEgressMaxBytes: -1}, "subscriber egress max bytes"},
		{Config{MaxSubscriptionsPerConn: -1}, "max subscriptions"},
		{Config{LogCapacity: -1}, "log capacity"},
		{Config{RingMaxBytes: -1}, "ring max bytes"},
		{Config{RingMaxBytesTotal: -1}, "ring max bytes total"},
		{Config{Streams: []wire.Scope{{Tenant: "t1", Namespace: "default"}}}, "three parts"},
		{Config{Caches: []wire.Scope{{Tenant: "t1", Namespace: "a/b", Stream: "c"}}}, "three parts"},
	} {
		if _, err := New(tt.cfg); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: got error %v, want one about %s", tt.cfg, err, tt.want)
		}
	}
}

func TestPolicyText(t *testing.T) {
	for _, p := range []Policy{PolicyDropNew, PolicyDropOld, PolicyBlock} {
		text, err := p.MarshalText()
		var back Policy
		if err != nil || back.UnmarshalText(text) != nil || back != p {
			t.Errorf("%v: %q, %v, %v", p, text, err, back)
		}
	}
	if _, err := ParsePolicy("dropnew"); err == nil || !strings.Contains(err.Error(), "drop_new, drop_old or block") {
		t.Errorf("a bad policy: %v", err)
	}
}
