package serve

import (
	"fmt"
	"net"
	"os"

	"github.com/usher-dev/usher/internal/cert"
)

// An identity is the server's certificate, and the file that tells clients to trust it.
type identity struct {
	*cert.Serving

	// caFile is empty if whoever made the certificate knows what to trust. A temporary one
	// goes with the server.
	caFile    string
	temporary bool
}

// newIdentity takes the certificate that the configuration names, or has one made.
func newIdentity(c Config) (*identity, error) {
	if c.CertFile != "" {
		serving, err := cert.Files(c.CertFile, c.KeyFile, "", c.Log)
		if err != nil {
			return nil, err
		}
		return &identity{Serving: serving}, nil
	}
	serving, err := cert.SelfSigned(cert.Options{Dir: c.CertDir, Hosts: hosts(c.BindAddress), Log: c.Log})
	if err != nil {
		return nil, err
	}
	if file := serving.CAFile(); file != "" {
		return &identity{Serving: serving, caFile: file}, nil
	}
	file, err := os.CreateTemp("", "usher-ca-*.crt")
	if err != nil {
		return nil, fmt.Errorf("write CA bundle: %w", err)
	}
	i := &identity{Serving: serving, caFile: file.Name(), temporary: true}
	_, err = file.Write(serving.CA())
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		i.close()
		return nil, fmt.Errorf("write CA bundle: %w", err)
	}
	return i, nil
}

func (i *identity) close() {
	if i.temporary {
		_ = os.Remove(i.caFile)
	}
}

// hosts are the names under which a server that listens on address is called.
func hosts(address string) []string {
	all := []string{"localhost", "127.0.0.1", "::1"}
	ip := net.ParseIP(address)
	switch {
	case ip == nil || ip.IsLoopback() && (address == "127.0.0.1" || address == "::1"):
		return all
	case !ip.IsUnspecified():
		return append(all, address)
	}
	if name, err := os.Hostname(); err == nil && name != "" {
		all = append(all, name)
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return all
	}
	for _, a := range addresses {
		if network, ok := a.(*net.IPNet); ok && !network.IP.IsLoopback() && !network.IP.IsLinkLocalUnicast() {
			all = append(all, network.IP.String())
		}
	}
	return all
}
