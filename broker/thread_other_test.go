//go:build !linux

package broker

// threadID is not known here.
func threadID() int { return 0 }
