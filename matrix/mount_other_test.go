//go:build unix && !linux

package main

import "errors"

func mountTmpfs(string, int64) error { return errors.New("only on Linux") }

func unmount(string) error { return nil }
