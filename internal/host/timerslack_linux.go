package host

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// TimerSlack is how late the kernel may wake the calling thread from a sleep; a thread begins with that of the one
// that started it, and a process with that of the thread that started it.
func TimerSlack() (time.Duration, error) {
	ns, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if err != nil {
		return 0, fmt.Errorf("PR_GET_TIMERSLACK: %w", err)
	}
	return time.Duration(ns), nil
}

// WithTimerSlack makes sure that every thread of this process has the slack. If it has not, the program is started
// anew in its place, with the same arguments, and this call does not return: Go's own threads begin before any code of
// ours, and another thread's slack takes a privilege to change. So it belongs at the start of a program, and an open
// file without close-on-exec would leak.
//
// An error means that the process goes on with the slack that it has.
func WithTimerSlack(slack time.Duration) error {
	want := slack.String()
	tried := os.Getenv(slackTriedEnv)
	if err := os.Unsetenv(slackTriedEnv); err != nil { // what is started from here has to try for itself
		return err
	}
	has, err := TimerSlack()
	if err != nil || has == slack {
		return err
	}
	if tried == want {
		return fmt.Errorf("the kernel gives a timer slack of %v, not %v: a real-time process has none", has, slack)
	}
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("start anew with a timer slack of %v: %w", slack, err)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := setTimerSlack(slack); err != nil {
		return err
	}
	err = syscall.Exec(program, os.Args, append(os.Environ(), slackTriedEnv+"="+want))
	_ = setTimerSlack(has) // it was possible before
	return fmt.Errorf("start anew with a timer slack of %v: %w", slack, err)
}

// slackTriedEnv is the slack that a program was started anew for, so that it is not tried for ever.
const slackTriedEnv = "LATENCYDEMO_TIMER_SLACK_TRIED"

func setTimerSlack(slack time.Duration) error {
	if slack <= 0 {
		return fmt.Errorf("timer slack of %v: want more than 0", slack)
	}
	if err := unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(slack), 0, 0, 0); err != nil {
		return fmt.Errorf("PR_SET_TIMERSLACK: %w", err)
	}
	return nil
}
