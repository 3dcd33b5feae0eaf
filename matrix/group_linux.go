package main

import "syscall"

// dieWithParent has the kernel kill the process when the thread that started it ends, which is when we do: a trial that
// outlives a killed matrix would run beside the first one of the resumed matrix. Its roles follow, because their stdin
// closes.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
