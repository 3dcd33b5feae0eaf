// Package broker is the publish/subscribe broker: it takes authenticated QUIC connections, reads
// published batches, keeps the newest of them per stream, and fans them out to subscriptions
// whose queues are bounded, with every drop counted where it happened.
//
// A message takes this way (the numbers are those of the checkpoints):
//
//	frames.go        read a frame into a pooled buffer
//	admission.go     3: bytes of the connection, and of all
//	lane.go          4: the queue of the publish's stream, by tenant
//	ingress.go       executors: the reader itself when they are idle; goroutines, or a shard
//	stream.go        number it, keep it in the replay ring, offer it to every subscription
//	queue.go         5: the subscriber queue and its policy
//	feeder.go        the feeder's step: take room in the egress share, coalesce into frames
//	outbox.go        6: the writer's queue of the subscription
//	writer.go        write to the subscription's QUIC stream
//
// What becomes of a publish that finds no room at 3 or 4 is one decision: see enqueuePolicy. Each
// stream is a lane, so its publishes are executed in the order of arrival. One that finds a
// subscriber full under PolicyBlock parks its lane, which holds no executor, so that a slow
// subscriber slows the publishers of its stream and nobody else as long as the byte budgets have
// room. Acks leave in the order of their requests (replies.go): when accepted, or when fanned out.
//
// The package reads no flags, environment or files and logs only to the logger it is given.
package broker
