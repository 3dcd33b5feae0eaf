// Package settings resolves what a broker, a client and their transport are told to
// do: default < YAML < FELIX_* environment < flag, each layer strict, and every value
// kept with where it came from.
//
// The three structs are the table of keys: their tags give the name in YAML, the
// environment variable, the default, the unit and the bounds. Only keys that the code
// obeys are in them. The package imports nothing else of this module, opens no socket
// and reads a file only in [LayersFor].
package settings

// Broker is what broker and broker/service obey. The zero value is not the default:
// fill it with [LoadAll] or [Defaults].
type Broker struct {
	QUICBind    string `key:"quic_bind" env:"FELIX_QUIC_BIND" default:"127.0.0.1:5000" form:"address" help:"address of the listener (UDP)"`
	MetricsBind string `key:"metrics_bind" env:"FELIX_BROKER_METRICS_BIND" default:"127.0.0.1:8080" form:"loopback" help:"address of the admin HTTP: /live /ready /metrics /stats; loopback only"`

	MaxFrameBytes        int `key:"max_frame_bytes" env:"FELIX_MAX_FRAME_BYTES" default:"16MiB" unit:"bytes" min:"4KiB" max:"1GiB" help:"largest frame body that is read, at both ends"`
	ShutdownDrainTimeout int `key:"shutdown_drain_timeout_ms" env:"FELIX_SHUTDOWN_DRAIN_TIMEOUT_MS" default:"25000" unit:"ms" min:"0" max:"3600000" help:"how long a stop may drain; 0 closes at once"`

	EventBatchMaxEvents int   `key:"event_batch_max_events" env:"FELIX_EVENT_BATCH_MAX_EVENTS" default:"64" unit:"events" min:"1" max:"1048576" help:"events joined into one frame; at most fanout_batch_size"`
	EventBatchMaxBytes  int   `key:"event_batch_max_bytes" env:"FELIX_EVENT_BATCH_MAX_BYTES" default:"64KiB" unit:"bytes" min:"1" max:"1GiB" help:"bytes joined into one frame; a published batch that is larger goes as it is"`
	EventBatchMaxDelay  int   `key:"event_batch_max_delay_us" env:"FELIX_EVENT_BATCH_MAX_DELAY_US" default:"250" unit:"us" min:"0" max:"60000000" help:"how long a feeder may hold a frame back for more while the writer is busy; 0: not at all"`
	FanoutBatchSize     int   `key:"fanout_batch_size" env:"FELIX_FANOUT_BATCH" default:"64" unit:"events" min:"0" max:"1048576" help:"events a feeder takes at once; 0 or 1: one event a frame (latency profile)"`
	LogCapacity         int   `key:"log_capacity" env:"FELIX_LOG_CAPACITY" default:"1024" unit:"payloads" min:"1" max:"16777216" help:"replay ring, payloads per stream"`
	RingMaxBytes        int64 `key:"ring_max_bytes" env:"FELIX_RING_MAX_BYTES" default:"64MiB" unit:"bytes" min:"1" help:"replay ring, bytes kept alive per stream"`
	RingMaxBytesTotal   int64 `key:"ring_max_bytes_total" env:"FELIX_RING_MAX_BYTES_TOTAL" default:"256MiB" unit:"bytes" min:"1" help:"replay rings, bytes kept alive over all streams"`

	AckOnCommit       bool  `key:"ack_on_commit" env:"FELIX_ACK_ON_COMMIT" default:"false" help:"ack a publish when it was fanned out instead of when it was accepted"`
	AckWaitTimeout    int   `key:"ack_wait_timeout_ms" env:"FELIX_ACK_WAIT_TIMEOUT_MS" default:"2000" unit:"ms" min:"1" max:"3600000" help:"how long a commit ack may take"`
	PubIngressWait    bool  `key:"pub_ingress_wait" env:"FELIX_PUB_INGRESS_WAIT" default:"false" help:"checkpoints 3 and 4: publishes wait for room without a deadline instead of being shed"`
	PublishQueueWait  int   `key:"publish_queue_wait_timeout_ms" env:"FELIX_PUBLISH_QUEUE_WAIT_MS" default:"2000" unit:"ms" min:"1" max:"3600000" help:"checkpoints 3 and 4: the one deadline of an acked publish that waits (ack_on_commit)"`
	PubInflightBytes  int64 `key:"pub_inflight_bytes" env:"FELIX_BROKER_PUBLISH_INFLIGHT_BYTES" default:"64MiB" unit:"bytes" min:"1" help:"checkpoint 3: bytes admitted over all connections"`
	PubConnInflight   int64 `key:"pub_conn_inflight_bytes" env:"FELIX_BROKER_PUBLISH_CONN_INFLIGHT_BYTES" default:"16MiB" unit:"bytes" min:"1" help:"checkpoint 3: bytes admitted per connection"`
	PubQueueDepth     int   `key:"pub_queue_depth" env:"FELIX_BROKER_PUB_QUEUE_DEPTH" default:"64" unit:"publishes" min:"1" max:"1048576" help:"checkpoint 4: depth x executors in all, depth guaranteed to each tenant"`
	PubWorkersPerConn int   `key:"pub_workers_per_conn" env:"FELIX_BROKER_PUB_WORKERS_PER_CONN" default:"4" unit:"executors" min:"1" max:"1024" help:"executors of the publish scheduler, of the process"`
	CoreShards        int   `key:"core_shards" env:"FELIX_CORE_SHARDS" default:"0" unit:"shards" min:"0" max:"1024" help:"pinned shards that publishes and feeders run on; 0: none"`

	SubscriberQueueCapacity int    `key:"subscriber_queue_capacity" env:"FELIX_SUBSCRIBER_QUEUE_CAPACITY" default:"512" unit:"batches" min:"1" max:"16777216" help:"checkpoint 5: batches queued per subscription"`
	SubscriberQueueMaxBytes int64  `key:"subscriber_queue_max_bytes" env:"FELIX_SUBSCRIBER_QUEUE_MAX_BYTES" default:"64MiB" unit:"bytes" min:"1" help:"checkpoint 5: bytes queued per subscription"`
	SubscriberQueuePolicy   string `key:"subscriber_queue_policy" env:"FELIX_SUB_QUEUE_POLICY" default:"drop_new" choices:"block,drop_new,drop_old" help:"checkpoint 5: what happens when the queue is full"`
	SubscriberQueueMaxTotal int64  `key:"subscriber_queue_max_bytes_total" env:"FELIX_SUBSCRIBER_QUEUE_MAX_BYTES_TOTAL" default:"512MiB" unit:"bytes" min:"1" help:"checkpoint 5: bytes queued over all subscriptions, until they are written"`
	SubscriberLaneDepth     int    `key:"subscriber_lane_queue_depth" env:"FELIX_SUB_LANE_QUEUE_DEPTH" default:"64" unit:"frames" min:"1" max:"1048576" help:"checkpoint 6: frames queued for a subscription's writer"`
	SubscriberLanePolicy    string `key:"subscriber_lane_queue_policy" env:"FELIX_SUB_LANE_QUEUE_POLICY" default:"drop_new" choices:"block,drop_new,drop_old" help:"checkpoint 6: what happens when the writer's queue is full"`
	SubscriberEgressMax     int64  `key:"subscriber_egress_max_bytes" env:"FELIX_SUBSCRIBER_EGRESS_MAX_BYTES" default:"256MiB" unit:"bytes" min:"1" help:"checkpoint 6: bytes per connection between the subscriber queues and the wire, shared among its subscriptions"`
	MaxSubscriptionsPerConn int    `key:"max_subscriptions_per_conn" env:"FELIX_MAX_SUBSCRIPTIONS_PER_CONN" default:"4096" unit:"subscriptions" min:"1" max:"1048576" help:"subscriptions that one connection may hold"`

	Streams []string `key:"streams" env:"FELIX_STREAMS" default:"" form:"scopes" help:"registered streams, each tenant/namespace/stream"`
	Caches  []string `key:"caches" env:"FELIX_CACHES" default:"" form:"scopes" help:"registered caches, each tenant/namespace/cache"`

	TLSCert  string            `key:"tls_cert" env:"FELIX_TLS_CERT" default:"" unit:"file" help:"certificate (PEM); with tls_key empty too: a development certificate"`
	TLSKey   string            `key:"tls_key" env:"FELIX_TLS_KEY" default:"" unit:"file" help:"private key of tls_cert (PEM)"`
	AuthJWKS map[string]string `key:"auth_jwks" env:"FELIX_AUTH_JWKS" default:"" form:"tenants" help:"tenant: file with the tenant's public keys (JWKS)"`

	ConnStats int `key:"conn_stats_ms" env:"FELIX_CONN_STATS_MS" default:"250" unit:"ms" min:"0" max:"3600000" help:"sampling of connection statistics; 0: only when a connection closes"`
}

// Client is what client obeys. The zero value is not the default: see [Broker].
type Client struct {
	PublishConnPool       int    `key:"publish_conn_pool" env:"FELIX_PUB_CONN_POOL" default:"4" unit:"connections" min:"1" max:"1024" help:"connections of a publisher"`
	PublishStreamsPerConn int    `key:"publish_streams_per_conn" env:"FELIX_PUB_STREAMS_PER_CONN" default:"2" unit:"QUIC streams" min:"1" max:"1024" help:"publish streams on each of them; workers = the product"`
	PublishQueueDepth     int    `key:"publish_queue_depth" env:"FELIX_PUBLISH_QUEUE_DEPTH" default:"64" unit:"batches" min:"1" max:"1048576" help:"checkpoint 2: batches queued per publish worker"`
	PublishInflightBytes  int64  `key:"publish_inflight_bytes" env:"FELIX_PUBLISH_INFLIGHT_BYTES" default:"4MiB" unit:"bytes" min:"1" help:"checkpoint 1: bytes admitted over all workers"`
	PublishSharding       string `key:"publish_sharding" env:"FELIX_PUB_SHARDING" default:"hash_stream" choices:"hash_stream,rr" help:"hash_stream keeps a stream's order; rr promises none"`

	EventConnPool          int    `key:"event_conn_pool" env:"FELIX_EVENT_CONN_POOL" default:"8" unit:"connections" min:"1" max:"1024" help:"connections that subscriptions are spread over"`
	ClientSubQueueCapacity int    `key:"client_sub_queue_capacity" env:"FELIX_CLIENT_SUB_QUEUE_CAPACITY" default:"256" unit:"frames" min:"1" max:"1048576" help:"checkpoint 7: frames queued per subscription in the client"`
	ClientSubQueuePolicy   string `key:"client_sub_queue_policy" env:"FELIX_CLIENT_SUB_QUEUE_POLICY" default:"drop_new" choices:"block,drop_new,drop_old" help:"checkpoint 7: what happens when the queue is full"`

	AckTimeout    int    `key:"ack_timeout_ms" env:"FELIX_ACK_TIMEOUT_MS" default:"30000" unit:"ms" min:"1" max:"3600000" help:"how long a publish may wait for its ack"`
	MaxFrameBytes int    `key:"max_frame_bytes" env:"FELIX_MAX_FRAME_BYTES" default:"16MiB" unit:"bytes" min:"4KiB" max:"1GiB" help:"largest frame body that is read, at both ends"`
	AuthTenantID  string `key:"auth_tenant_id" env:"FELIX_AUTH_TENANT" default:"" help:"tenant of auth_token"`
	AuthToken     string `key:"auth_token" env:"FELIX_AUTH_TOKEN" default:"" secret:"true" help:"token (JWT) that every stream is authenticated with"`
}

// Transport is what internal/transport obeys, at either end. The zero value is not the
// default: see [Broker].
type Transport struct {
	ConnRecvWindow   int64 `key:"conn_recv_window" env:"FELIX_CONN_RECV_WINDOW" default:"64MiB" unit:"bytes" min:"64KiB" max:"4GiB" help:"credit granted to the peer per connection, initial = maximum"`
	StreamRecvWindow int64 `key:"stream_recv_window" env:"FELIX_STREAM_RECV_WINDOW" default:"16MiB" unit:"bytes" min:"64KiB" max:"4GiB" help:"credit granted to the peer per QUIC stream, initial = maximum"`

	UDPSendBuffer  int  `key:"udp_send_buffer" env:"FELIX_UDP_SEND_BUFFER" default:"8MiB" unit:"bytes" min:"4KiB" max:"1GiB" help:"socket send buffer asked for; what is granted is reported"`
	UDPRecvBuffer  int  `key:"udp_recv_buffer" env:"FELIX_UDP_RECV_BUFFER" default:"8MiB" unit:"bytes" min:"4KiB" max:"1GiB" help:"socket receive buffer asked for; what is granted is reported"`
	UDPBufferForce bool `key:"udp_buffer_force" env:"FELIX_UDP_BUFFER_FORCE" default:"false" help:"ask with SO_*BUFFORCE, which needs CAP_NET_ADMIN"`

	PacketSize         int  `key:"packet_size" env:"FELIX_PACKET_SIZE" default:"0" unit:"bytes" min:"1200" max:"1452" zero:"true" help:"UDP payload of the first packets, also the floor; 0: the library's"`
	PacketSizeAnywhere bool `key:"packet_size_anywhere" env:"FELIX_PACKET_SIZE_ANYWHERE" default:"false" help:"allow packet_size above 1280 towards addresses that are not loopback"`
	MTUDiscovery       bool `key:"mtu_discovery" env:"FELIX_MTU_DISCOVERY" default:"true" help:"path MTU discovery"`

	GSO           string `key:"gso" env:"FELIX_GSO" default:"auto" choices:"auto,on,off" help:"several packets a send call (UDP segmentation offload, Linux); auto: on"`
	GRO           string `key:"gro" env:"FELIX_GRO" default:"auto" choices:"auto,on,off" help:"several packets a read (UDP receive offload, Linux); auto: on"`
	GSOMerge      string `key:"gso_merge" env:"FELIX_GSO_MERGE" default:"auto" choices:"auto,on,off" help:"join full send calls of the library (20 KiB) up to what the kernel takes at once (64 KiB); auto: on"`
	RecvGateBytes int64  `key:"recv_gate_bytes" env:"FELIX_RECV_GATE_BYTES" default:"0" unit:"bytes" min:"0" max:"1GiB" help:"packets stay in the kernel while a connection has more bytes than this in its receive queue; 0: never"`
	Sockets       string `key:"sockets" env:"FELIX_SOCKETS" default:"own" choices:"own,shared" help:"own: a UDP socket for every dialled connection; shared: one per process and role"`

	IdleTimeout int `key:"idle_timeout_ms" env:"FELIX_IDLE_TIMEOUT_MS" default:"30000" unit:"ms" min:"5000" max:"86400000" zero:"true" help:"silence after which a connection is given up, at least 5 s (a peer takes less for 5 s); 0: never"`
	KeepAlive   int `key:"keep_alive_ms" env:"FELIX_KEEP_ALIVE_MS" default:"10000" unit:"ms" min:"0" max:"86400000" help:"silence after which a ping is sent; 0: none"`
}
