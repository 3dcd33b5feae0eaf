// Package wire encodes and decodes Felix frames: header, batches, acks and JSON messages.
// It is pure encoding: no sockets, clocks or goroutines, and it keeps no state.
//
// A frame is a 12-byte header and a body. [Flags.Kind] says what the body is; each kind has one
// Append, which writes a whole frame, and one Parse, which takes the body alone:
//
//	JSON message   AppendMessage       ParseMessage
//	publish batch  PublishBatch.Append ParsePublishBatch, ParsePublishHead
//	event batch    EventBatch.Append   ParseEventBatch
//	publish ack    PublishAck.Append   ParsePublishAck
//
// Parsers never panic and never allocate by a number that they have not checked against the bytes
// that are there. Binary parsers return slices of their input; JSON parsers return copies.
//
// Nothing here decides what a value means: that an absent ack means acked, or who may publish
// where, is the business of broker and client.
package wire
