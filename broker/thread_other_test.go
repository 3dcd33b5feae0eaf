//go:build !linux

package broker_test

// threadID is not known here.
func threadID() int { return 0 }
