//go:build !linux

package transport

import "syscall"

// unsegmented changes nothing: there is no segmentation offload here.
type unsegmented struct{ syscall.RawConn }
