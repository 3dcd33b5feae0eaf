//go:build !unix

package service

// usage leaves out what only getrusage knows.
func (p *Process) usage() {}
