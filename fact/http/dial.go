package http

import (
	"fmt"
	"net/netip"
	"syscall"
)

// refuseLocal is a net.Dialer.Control: it sees the address that a name was resolved to.
func refuseLocal(_, address string, _ syscall.RawConn) error {
	target, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("address %q is not understood", address)
	}
	if what := local(target.Addr()); what != "" {
		return fmt.Errorf("%s addresses are not allowed", what)
	}
	return nil
}

// local says what is local about an address, or nothing. Private networks are not: the
// services of a cluster live there.
func local(address netip.Addr) string {
	a := address.WithZone("").Unmap()
	if translation := netip.MustParsePrefix("64:ff9b::/96"); translation.Contains(a) {
		bytes := a.As16()
		a = netip.AddrFrom4([4]byte(bytes[12:]))
	}
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

// isMetadata knows the metadata services of clouds that are not link-local.
func isMetadata(a netip.Addr) bool {
	switch a.String() {
	case "fd00:ec2::254", "fd20:ce::254", "100.100.100.200", "168.63.129.16":
		return true
	}
	return false
}
