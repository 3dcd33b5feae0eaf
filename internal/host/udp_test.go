package host

import (
	"net"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const snmp = `Tcp: RtoAlgorithm
Tcp: 1
Udp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors InCsumErrors
Udp: 100 1 5 90 4 2 0
UdpLite: InDatagrams
UdpLite: 7
`

const sockets = `   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops
  123: 0100007F:1388 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 11 2 0000000000000000 3
  124: 0100007F:1389 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 12 2 0000000000000000 8
`

const sockets6 = `  sl  local_address                         remote_address                        st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops
   50: 00000000000000000000000001000000:1388 00000000000000000000000000000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 13 2 0000000000000000 10
`

func n(v uint64) *uint64 { return &v }

func TestUDPCounters(t *testing.T) {
	root := files(map[string]string{
		"proc/net/snmp":  snmp,
		"proc/net/snmp6": "Ip6InReceives 9\nUdp6InDatagrams   \t 11\nUdp6RcvbufErrors 1\nUdp6Odd x\n",
		"proc/net/udp":   sockets,
		"proc/net/udp6":  sockets6,
	})
	want := UDP{InDatagrams: n(111), OutDatagrams: n(90), InErrors: n(5), RcvbufErrors: n(5), SndbufErrors: n(2), Drops: map[int]uint64{5000: 13, 5001: 8}}
	got := readUDP(root, nil)
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(map[int]uint64{5001: 8}, readUDP(root, []int{5001, 9}).Drops); d != "" {
		t.Errorf("one port: %s", d)
	}

	before := UDP{InDatagrams: n(11), OutDatagrams: n(91), InErrors: nil, RcvbufErrors: n(5), SndbufErrors: n(0), Drops: map[int]uint64{5000: 3, 7: 1}}
	wantDiff := UDP{InDatagrams: n(100), RcvbufErrors: n(0), SndbufErrors: n(2), Drops: map[int]uint64{5000: 10, 5001: 8}}
	if d := cmp.Diff(wantDiff, got.Sub(before)); d != "" {
		t.Errorf("Sub: %s", d)
	}
}

func TestUDPUnavailable(t *testing.T) {
	for name, root := range map[string]map[string]string{
		"no file":      nil,
		"no Udp lines": {"proc/net/snmp": "Ip: a\nIp: 1\n"},
		"short line":   {"proc/net/snmp": "Udp: a b\nUdp: 1\n"},
		"not a number": {"proc/net/snmp": "Udp: InDatagrams\nUdp: x\n"},
	} {
		u := readUDP(files(root), nil)
		if u.Unavailable == "" || u.InDatagrams != nil {
			t.Errorf("%s: %+v, want nulls and a reason", name, u)
		}
		if d := u.Sub(UDP{}); d.Unavailable == "" || d.InDatagrams != nil {
			t.Errorf("%s: Sub = %+v, want nulls and a reason", name, d)
		}
	}
}

func TestUDPOfThisMachine(t *testing.T) {
	if runtime.GOOS != "linux" {
		if u := ReadUDP(); u.Unavailable == "" {
			t.Errorf("%+v, want a reason", u)
		}
		return
	}
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Skip("no UDP on loopback: ", err)
	}
	defer conn.Close()
	port := conn.LocalAddr().(*net.UDPAddr).Port
	before := ReadUDP(port)
	if before.Unavailable != "" {
		t.Skip(before.Unavailable)
	}
	if drops, ok := before.Drops[port]; !ok || drops != 0 {
		t.Errorf("Drops = %v, want 0 at port %d", before.Drops, port)
	}
	if _, err := conn.WriteTo([]byte("x"), conn.LocalAddr()); err != nil {
		t.Fatal(err)
	}
	if _, _, err := conn.ReadFrom(make([]byte, 9)); err != nil {
		t.Fatal(err)
	}
	if d := ReadUDP(port).Sub(before); *d.OutDatagrams < 1 || *d.InDatagrams < 1 {
		t.Errorf("one datagram later: out %d, in %d", *d.OutDatagrams, *d.InDatagrams)
	}
}
