package service

import "felix/internal/settings"

// NotLossless is the warning about a configuration that looks lossless and is not.
const NotLossless = "not lossless: unacked publishes can be dropped at checkpoint 4; set pub_ingress_wait"

// AlmostLossless reports whether a broker blocks at every subscriber queue, and yet sheds unacked publishes that find
// no room at its ingress. What is missing then never reached a queue: nothing downstream waits for anything.
func AlmostLossless(b *settings.Broker) bool {
	return b.SubscriberQueuePolicy == "block" && b.SubscriberLanePolicy == "block" && !b.PubIngressWait
}
