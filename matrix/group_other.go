//go:build !unix

package main

import (
	"os"
	"syscall"
)

func ownGroup() *syscall.SysProcAttr { return nil }

// killGroup kills the process alone; its roles end by themselves when their stdin closes.
func killGroup(p *os.Process) { _ = p.Kill() } // already gone: as wanted

func signalName(*os.ProcessState) string { return "" }

func isNoSpace(error) bool { return false }

func freeSpace(string) (uint64, bool) { return 0, false }

// holdDir holds nothing: there are no locks here that end with their process.
func holdDir(string) (func(), bool, error) { return func() {}, true, nil }
