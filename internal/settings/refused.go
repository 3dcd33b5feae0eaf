package settings

import (
	"fmt"
	"strings"
)

// refused are settings of Felix that its users may bring along and that cannot exist on
// quic-go, with what comes nearest. They are refused by name instead of as unknown:
// somebody who tunes a setting that was silently dropped measures nothing.
var refused = map[string]string{
	"FELIX_IO_RUNTIME_THREADS":         "use --procs / --cpus",
	"FELIX_PUMP_COLOCATE":              "use --procs / --cpus",
	"FELIX_WORKER_THREADS":             "use --procs / --cpus",
	"FELIX_INITIAL_MTU":                "the nearest settings are packet_size and mtu_discovery",
	"FELIX_MTU_UPPER_BOUND":            "the nearest settings are packet_size and mtu_discovery",
	"FELIX_MTU_BLACK_HOLE_COOLDOWN_MS": "the nearest settings are packet_size and mtu_discovery",
	"FELIX_INITIAL_CWND":               "it is not settable",
	"FELIX_ACK_ELICITING_THRESHOLD":    "it is not settable",
	"FELIX_ACK_FREQ_DISABLE":           "it is not settable",
	"FELIX_SUB_EGRESS_LANES":           "there are no lanes between feeder and writer; the nearest setting is subscriber_queue_capacity",
	"FELIX_SUB_WRITER_LANES":           "there are no lanes between feeder and writer; the nearest setting is subscriber_queue_capacity",
	"FELIX_SUB_LANE_SHARD":             "there are no lanes between feeder and writer; the nearest setting is subscriber_queue_capacity",
	"FELIX_EVENT_SEND_WINDOW":          "the nearest setting is conn_recv_window of the peer",
	"FELIX_PUBLISH_CHUNK_BYTES":        "a frame is written whole; the nearest setting is publish_inflight_bytes",
}

func refusedEnv(name string) string {
	if what, ok := refused[name]; ok {
		return fmt.Sprintf("%s cannot exist on quic-go: %s", name, what)
	}
	return ""
}

// refusedKey does the same for the spelling in YAML and flags.
func refusedKey(key string) string {
	if what, ok := refused["FELIX_"+strings.ToUpper(key)]; ok {
		return fmt.Sprintf("%s cannot exist on quic-go: %s", key, what)
	}
	return ""
}
