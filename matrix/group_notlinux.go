//go:build unix && !linux

package main

import "syscall"

// dieWithParent needs Linux: elsewhere a trial in flight outlives a matrix that is killed, and ends by itself.
func dieWithParent(*syscall.SysProcAttr) {}
