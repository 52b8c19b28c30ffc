package cert

import (
	"errors"
	"fmt"
	"os"
	"time"
)

// Issue makes a serving certificate, signed by the CA in a folder, and writes it there as tls.crt
// and tls.key. It uses an existing CA, so that clients still trust it, or else makes one. The
// lifetime is that of the certificate, 0 means a year; it does not exceed that of the CA.
func Issue(dir string, hosts []string, lifetime time.Duration) (*Issued, error) {
	k := &keeper{maker: &maker{hosts: hosts, lifetime: lifetime, now: time.Now}, dir: dir}
	before, err := k.read(caCert)
	if err != nil {
		return nil, err
	}
	key, err := k.read(caKey)
	if err != nil {
		return nil, err
	}
	if (before == nil) != (key == nil) {
		return nil, fmt.Errorf("load CA: %s and %s come together: put the missing one back, or use another folder", k.path(caCert), k.path(caKey))
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("keep certificate: %w", err)
	}
	ca, err := k.authority()
	if err != nil {
		return nil, err
	}
	leaf, err := k.maker.makeLeaf(ca)
	if err != nil {
		return nil, err
	}
	issued := &Issued{
		CAFile: k.path(caCert), CertFile: k.path(tlsCert), KeyFile: k.path(tlsKey),
		CA: ca.certPEM, NewCA: string(ca.certPEM) != string(before),
		NotAfter: leaf.certificate.Leaf.NotAfter, CANotAfter: ca.certificate.NotAfter,
	}
	return issued, errors.Join(k.write(tlsKey, leaf.keyPEM, 0o600), k.write(tlsCert, leaf.certPEM, 0o644))
}

// An Issued is a certificate that was made.
type Issued struct {
	// CAFile is the file that clients have to trust, and CA its content; CertFile and KeyFile are
	// for the server. All are in PEM.
	CAFile, CertFile, KeyFile string
	CA                        []byte
	// NewCA reports that the CA is new: there was none, or it was about to expire.
	NewCA                bool
	NotAfter, CANotAfter time.Time
}
