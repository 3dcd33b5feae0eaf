// Package broker is the publish/subscribe broker: it takes authenticated QUIC connections, reads
// published batches, keeps the newest of them per stream, and fans them out to subscriptions
// whose queues are bounded, with every drop counted where it happened.
//
// A message takes this way (the numbers are those of the checkpoints):
//
//	frames.go        read a frame into a pooled buffer
//	                 (3, 4: admission and scheduler will stand here, see publisher.publish)
//	stream.go        number it, keep it in the replay ring, fan it out
//	queue.go         5: the subscriber queue and its policy
//	feeder.go        the feeder's step: take room in the egress share, coalesce into frames
//	outbox.go        6: the writer's queue of the subscription
//	writer.go        write to the subscription's QUIC stream
//
// Today a publish is executed by the goroutine that read it, so an unacked publish that finds no
// room waits (or is shed at 5), and an acked one is answered after its fanout.
//
// The package reads no flags, environment or files and logs only to the logger it is given.
package broker
