// Package pki creates and stores the certificates and keys of a sandbox in a folder.
package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// validity is how long certificates are valid: a sandbox with a kept folder may be started
// again months later.
const validity = 10 * 365 * 24 * time.Hour

// A PKI is a folder of certificates and keys in PEM: ca, front-proxy-ca, apiserver,
// front-proxy-client, admin, each as .crt and .key, and the service account keys sa.pub
// and sa.key.
type PKI struct {
	Dir string
	ca  authority
}

// A Pair is a certificate and its key, in PEM.
type Pair struct {
	Cert, Key []byte
}

type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// Ensure returns the PKI in dir, and creates it if there is none.
func Ensure(dir string) (*PKI, error) {
	p := &PKI{Dir: dir}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make folder for certificates: %w", err)
	}
	ca, err := p.load("ca")
	switch {
	case err == nil:
		p.ca = ca
		return p, nil
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	return p, p.create()
}

// Path returns the path of the file with that name.
func (p *PKI) Path(name string) string { return filepath.Join(p.Dir, name) }

// CA returns the certificate that all components trust, in PEM.
func (p *PKI) CA() []byte { return encode("CERTIFICATE", p.ca.cert.Raw) }

// Client issues a client certificate.
func (p *PKI) Client(user string, groups ...string) (Pair, error) {
	return issue(p.ca, &x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

// Server issues a serving certificate for DNS names and loopback addresses.
func (p *PKI) Server(names ...string) (Pair, error) {
	return issue(p.ca, &x509.Certificate{
		Subject:     pkix.Name{CommonName: names[0]},
		DNSNames:    append(names, "localhost"),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback, net.IPv4(10, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
}

func (p *PKI) create() error {
	ca, err := p.authority("ca", "usher-sandbox")
	if err != nil {
		return err
	}
	p.ca = ca
	proxy, err := p.authority("front-proxy-ca", "usher-sandbox-front-proxy")
	if err != nil {
		return err
	}
	server, err := p.Server("kubernetes", "kubernetes.default", "kubernetes.default.svc")
	if err != nil {
		return err
	}
	admin, err := p.Client("sandbox-admin", "system:masters")
	if err != nil {
		return err
	}
	front, err := issue(proxy, &x509.Certificate{
		Subject:     pkix.Name{CommonName: "front-proxy-client"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return err
	}
	for name, pair := range map[string]Pair{"apiserver": server, "admin": admin, "front-proxy-client": front} {
		if err := p.save(name, pair); err != nil {
			return err
		}
	}
	return p.serviceAccountKeys()
}

func (p *PKI) serviceAccountKeys() error {
	key, err := newKey()
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return fmt.Errorf("encode service account key: %w", err)
	}
	private, err := encodeKey(key)
	if err != nil {
		return err
	}
	if err := os.WriteFile(p.Path("sa.pub"), encode("PUBLIC KEY", public), 0o600); err != nil {
		return fmt.Errorf("write service account key: %w", err)
	}
	if err := os.WriteFile(p.Path("sa.key"), private, 0o600); err != nil {
		return fmt.Errorf("write service account key: %w", err)
	}
	return nil
}

func (p *PKI) authority(name, commonName string) (authority, error) {
	key, err := newKey()
	if err != nil {
		return authority{}, err
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: commonName},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	cert, err := sign(template, key.Public(), authority{cert: template, key: key})
	if err != nil {
		return authority{}, err
	}
	private, err := encodeKey(key)
	if err != nil {
		return authority{}, err
	}
	return authority{cert: cert, key: key}, p.save(name, Pair{Cert: encode("CERTIFICATE", cert.Raw), Key: private})
}

func (p *PKI) save(name string, pair Pair) error {
	if err := os.WriteFile(p.Path(name+".key"), pair.Key, 0o600); err != nil {
		return fmt.Errorf("write key: %w", err)
	}
	if err := os.WriteFile(p.Path(name+".crt"), pair.Cert, 0o600); err != nil {
		return fmt.Errorf("write certificate: %w", err)
	}
	return nil
}

func (p *PKI) load(name string) (authority, error) {
	certPEM, err := os.ReadFile(p.Path(name + ".crt"))
	if err != nil {
		return authority{}, fmt.Errorf("read certificate: %w", err)
	}
	keyPEM, err := os.ReadFile(p.Path(name + ".key"))
	if err != nil {
		return authority{}, fmt.Errorf("read key: %w", err)
	}
	certBlock, _ := pem.Decode(certPEM)
	keyBlock, _ := pem.Decode(keyPEM)
	if certBlock == nil || keyBlock == nil {
		return authority{}, fmt.Errorf("read %s: not PEM", p.Path(name+".crt"))
	}
	cert, err := x509.ParseCertificate(certBlock.Bytes)
	if err != nil {
		return authority{}, fmt.Errorf("parse %s: %w", p.Path(name+".crt"), err)
	}
	key, err := x509.ParseECPrivateKey(keyBlock.Bytes)
	if err != nil {
		return authority{}, fmt.Errorf("parse %s: %w", p.Path(name+".key"), err)
	}
	return authority{cert: cert, key: key}, nil
}

func issue(ca authority, template *x509.Certificate) (Pair, error) {
	key, err := newKey()
	if err != nil {
		return Pair{}, err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	cert, err := sign(template, key.Public(), ca)
	if err != nil {
		return Pair{}, err
	}
	private, err := encodeKey(key)
	return Pair{Cert: encode("CERTIFICATE", cert.Raw), Key: private}, err
}

func sign(template *x509.Certificate, public crypto.PublicKey, ca authority) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, fmt.Errorf("make serial number: %w", err)
	}
	template.SerialNumber = serial
	template.NotBefore = time.Now().Add(-time.Hour)
	template.NotAfter = template.NotBefore.Add(validity)
	der, err := x509.CreateCertificate(rand.Reader, template, ca.cert, public, ca.key)
	if err != nil {
		return nil, fmt.Errorf("sign certificate: %w", err)
	}
	return x509.ParseCertificate(der)
}

func newKey() (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make key: %w", err)
	}
	return key, nil
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode key: %w", err)
	}
	return encode("EC PRIVATE KEY", der), nil
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
