package http

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"time"
)

// lookupTimeout bounds how long a connection waits for the addresses of [Options.Own].
const lookupTimeout = time.Second

// A guard refuses connections to this machine, to its neighbourhood, and to what answers under
// its own names. It judges the address that is dialled, so that a name may resolve to anything,
// and to something else each time.
type guard struct {
	own      []string
	resolver *net.Resolver
}

// check is a net.Dialer.ControlContext: it sees the address that a name was resolved to.
func (g *guard) check(ctx context.Context, _, address string, _ syscall.RawConn) error {
	parsed, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("address %q is not understood", address)
	}
	target := plain(parsed.Addr())
	if what := local(target); what != "" {
		return fmt.Errorf("%s addresses are not allowed", what)
	}
	interfaces, err := net.InterfaceAddrs()
	if err != nil {
		// An address that cannot be classified is rejected.
		return fmt.Errorf("list addresses of this machine: %w", err)
	}
	for _, i := range interfaces {
		if n, ok := i.(*net.IPNet); ok && isAddress(n.IP, target) {
			return fmt.Errorf("%s is an address of Usher itself: such addresses are not allowed", target)
		}
	}
	return g.checkOwn(ctx, target)
}

// checkOwn refuses the addresses of the own names. A name that cannot be looked up has none.
func (g *guard) checkOwn(ctx context.Context, target netip.Addr) error {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	for _, name := range g.own {
		addresses, _ := g.resolver.LookupNetIP(ctx, "ip", name)
		if slices.ContainsFunc(addresses, func(a netip.Addr) bool { return plain(a) == target }) {
			return fmt.Errorf("%s is the address of %s, which is Usher itself: such addresses are not allowed", target, name)
		}
	}
	return nil
}

func isAddress(ip net.IP, target netip.Addr) bool {
	a, ok := netip.AddrFromSlice(ip)
	return ok && plain(a) == target
}

// plain is an address without zone, and the IPv4 address in one that is translated.
func plain(address netip.Addr) netip.Addr {
	a := address.WithZone("").Unmap()
	if translation := netip.MustParsePrefix("64:ff9b::/96"); translation.Contains(a) {
		bytes := a.As16()
		return netip.AddrFrom4([4]byte(bytes[12:]))
	}
	return a
}

// local returns why an address is local, or nothing. Private networks are not local: the services
// of a cluster are there.
func local(a netip.Addr) string {
	switch {
	case a.IsLoopback():
		return "loopback"
	case a.IsUnspecified(), netip.MustParsePrefix("0.0.0.0/8").Contains(a):
		return "unspecified"
	case a.IsLinkLocalUnicast():
		return "link-local"
	case a.IsMulticast():
		return "multicast"
	case a == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return "broadcast"
	case isMetadata(a):
		return "metadata service"
	}
	return ""
}

// isMetadata recognises metadata services of clouds that are not link-local.
func isMetadata(a netip.Addr) bool {
	switch a.String() {
	case "fd00:ec2::254", "fd20:ce::254", "100.100.100.200", "168.63.129.16":
		return true
	}
	return false
}
