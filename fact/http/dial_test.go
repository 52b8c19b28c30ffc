package http_test

import (
	"bytes"
	"context"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/usher-dev/usher/fact/http"
)

// TestOwnAddressesAreRefused keeps policies from calling Usher itself: at an address of the
// machine, of the pod that is, and at those of its Service, however they are written.
func TestOwnAddressesAreRefused(t *testing.T) {
	t.Parallel()
	// These addresses are for documentation: nothing answers there.
	dns := newNames(t, map[string][]string{
		"usher.usher-system.svc": {"192.0.2.10"},
		"alias.example":          {"192.0.2.10"},
		"rebinding.example":      {"169.254.169.254", "192.0.2.10"},
	})
	resolver := http.New(http.Options{Own: []string{"unknown.example", "usher.usher-system.svc"}, Resolver: dns})
	const own = "which is Usher itself"
	tests := []struct {
		reason, url string
		want        string
	}{
		{"the name of the Service", "http://usher.usher-system.svc", own},
		{"its address", "http://192.0.2.10:9090/metrics", own},
		{"its address in IPv6", "http://[::ffff:192.0.2.10]", own},
		{"its address, translated", "http://[64:ff9b::192.0.2.10]", own},
		{"another name of it", "http://alias.example", own},
		{"a name that resolves to something else each time", "http://rebinding.example", "link-local addresses are not allowed"},
		{"is judged by the address that is dialled", "http://rebinding.example", own},
	}
	for _, address := range interfaces(t) {
		tests = append(tests, struct{ reason, url, want string }{
			"an interface of the machine", "http://" + netip.AddrPortFrom(address, 8443).String(), "an address of Usher itself",
		})
	}
	for _, tt := range tests {
		_, err := resolver.Resolve(t.Context(), get(tt.url))
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %s: error = %v, want %q in it", tt.reason, tt.url, err, tt.want)
		}
	}
}

// interfaces are the addresses of the machine that are not refused for another reason.
func interfaces(t *testing.T) []netip.Addr {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	var addresses []netip.Addr
	for _, address := range all {
		if prefix, err := netip.ParsePrefix(address.String()); err == nil && !prefix.Addr().IsLoopback() && !prefix.Addr().IsLinkLocalUnicast() {
			addresses = append(addresses, prefix.Addr())
		}
	}
	return addresses
}

// newNames returns a resolver of names by a DNS server of the test. Of several addresses each
// answer has the next one, and the last one stays.
func newNames(t *testing.T, names map[string][]string) *net.Resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		query := make([]byte, 512)
		for {
			n, from, err := conn.ReadFrom(query)
			if err != nil {
				return
			}
			_, _ = conn.WriteTo(answer(query[:n], names), from)
		}
	})
	t.Cleanup(func() {
		_ = conn.Close()
		serving.Wait()
	})
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

// answer answers a query (RFC 1035) for an A record; there are no others, and no other names.
func answer(query []byte, names map[string][]string) []byte {
	const header = 12
	var labels []string
	at := header
	for query[at] != 0 {
		end := at + 1 + int(query[at])
		labels = append(labels, string(query[at+1:end]))
		at = end
	}
	question := query[header : at+5]
	isA := bytes.Equal(query[at+1:at+3], []byte{0, 1})
	known, ok := names[strings.Join(labels, ".")]
	reply := append([]byte{query[0], query[1], 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}, question...)
	switch {
	case !ok:
		reply[3] |= 3 // there is no such name
	case isA:
		reply[7] = 1
		address := netip.MustParseAddr(known[0]).As4()
		reply = append(append(reply, 0xc0, header, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4), address[:]...)
		if len(known) > 1 {
			names[strings.Join(labels, ".")] = known[1:]
		}
	}
	return reply
}
