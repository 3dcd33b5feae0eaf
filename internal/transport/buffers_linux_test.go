package transport

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
)

func sysctl(t *testing.T, name string) int {
	t.Helper()
	text, err := os.ReadFile("/proc/sys/" + strings.ReplaceAll(name, ".", "/"))
	if err != nil {
		t.Skipf("cannot read %s: %v", name, err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestBufferGranted(t *testing.T) {
	// quic-go raises any buffer below 7 MiB on its own, past the limits if the process may: a
	// small buffer must still be what was asked for when the connection is in use.
	dialled, _ := pair(t, Config{}, Config{UDPSendBuffer: 128 << 10, UDPRecvBuffer: 96 << 10})
	info := dialled.SocketInfo()
	if info.SendBufferGranted != 128<<10 || info.RecvBufferGranted != 96<<10 || len(info.Warnings) > 0 {
		t.Errorf("granted %d and %d, warnings %q, want 128 and 96 KiB as asked", info.SendBufferGranted, info.RecvBufferGranted, info.Warnings)
	}
	if n, err := getBuffer(dialled.sock.raw, recvBuffer); err != nil || n != 96<<10 {
		t.Errorf("receive buffer in use = %d, %v, want 96 KiB", n, err)
	}
}

func TestBufferClamped(t *testing.T) {
	limit := sysctl(t, "net.core.rmem_max")
	if limit >= maxUDPBuffer/2 {
		t.Skipf("net.core.rmem_max is %d: nothing to clamp", limit)
	}
	id := newIdentity(t)
	l := listen(t, id, Config{UDPRecvBuffer: 2 * limit, UDPSendBuffer: 64 << 10})
	info := l.SocketInfo()
	if info.RecvBufferGranted != limit {
		t.Errorf("granted %d, want the limit %d", info.RecvBufferGranted, limit)
	}
	want := fmt.Sprintf("udp receive buffer: asked for %d bytes, granted %d: set net.core.rmem_max=%d", 2*limit, limit, 2*limit)
	if len(info.Warnings) != 1 || info.Warnings[0] != want {
		t.Errorf("warnings %q, want %q", info.Warnings, want)
	}
}

func TestBufferForced(t *testing.T) {
	limit := sysctl(t, "net.core.wmem_max")
	if limit >= maxUDPBuffer/2 {
		t.Skipf("net.core.wmem_max is %d: nothing to force", limit)
	}
	id := newIdentity(t)
	l := listen(t, id, Config{UDPSendBuffer: 2 * limit, UDPRecvBuffer: 64 << 10, UDPBufferForce: true})
	info := l.SocketInfo()
	switch granted := info.SendBufferGranted; {
	case granted == 2*limit:
		if len(info.Warnings) > 0 {
			t.Errorf("forced, but warnings %q", info.Warnings)
		}
	case len(info.Warnings) == 0 || !strings.Contains(info.Warnings[0], "force: operation not permitted"):
		t.Errorf("granted %d, warnings %q: want the reason why it was not forced", granted, info.Warnings)
	}
}
