package cli

import (
	"crypto/x509"
	"fmt"
	"os"
)

// RootCAs returns the certificates in the PEM file of --ca-file; nil, which are those of the system, if it is empty.
func RootCAs(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("--ca-file: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("--ca-file %s: no certificates in it", file)
	}
	return roots, nil
}
