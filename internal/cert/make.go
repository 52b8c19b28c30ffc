package cert

import (
	"cmp"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"
)

const (
	caLifetime   = 10 * 365 * 24 * time.Hour
	leafLifetime = 365 * 24 * time.Hour
	// ahead is how long before its end a certificate is renewed.
	ahead = 30 * 24 * time.Hour
	// skew is how much clocks may differ.
	skew = time.Hour
)

// A maker makes certificates.
type maker struct {
	hosts []string
	// lifetime is that of serving certificates; 0 means a year.
	lifetime time.Duration
	now      func() time.Time
	ca       *authority
}

// An authority is a CA.
type authority struct {
	certificate *x509.Certificate
	key         crypto.PrivateKey
	certPEM     []byte
}

// renew returns last, or a new certificate when that is about to expire.
func (m *maker) renew(last *identity) (*identity, error) {
	if last != nil && m.lasts(last.certificate.Leaf) {
		return last, nil
	}
	if m.ca == nil || !m.lasts(m.ca.certificate) {
		ca, err := m.makeCA()
		if err != nil {
			return nil, err
		}
		m.ca = ca
	}
	return m.makeLeaf(m.ca)
}

// lives reports whether a certificate will not have expired after a time. It ignores NotBefore:
// clocks of other machines decide that.
func (m *maker) lives(c *x509.Certificate, fromNow time.Duration) bool {
	return m.now().Add(fromNow).Before(c.NotAfter)
}

// lasts reports whether a certificate is valid and need not be renewed yet.
func (m *maker) lasts(c *x509.Certificate) bool {
	return !m.now().Before(c.NotBefore) && m.lives(c, ahead)
}

func (m *maker) makeCA() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make CA key: %w", err)
	}
	template, err := m.template("Usher CA", caLifetime)
	if err != nil {
		return nil, err
	}
	template.IsCA = true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("make CA certificate: %w", err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("make CA certificate: %w", err)
	}
	return &authority{certificate: certificate, key: key, certPEM: encode("CERTIFICATE", der)}, nil
}

func (m *maker) makeLeaf(ca *authority) (*identity, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make serving key: %w", err)
	}
	template, err := m.template("usher", cmp.Or(m.lifetime, leafLifetime))
	if err != nil {
		return nil, err
	}
	// What outlives its CA is not trusted.
	if template.NotAfter.After(ca.certificate.NotAfter) {
		template.NotAfter = ca.certificate.NotAfter
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	for _, host := range m.hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.certificate, key.Public(), ca.key)
	if err != nil {
		return nil, fmt.Errorf("make serving certificate: %w", err)
	}
	keyPEM, err := encodeKey(key)
	if err != nil {
		return nil, err
	}
	return newIdentity(encode("CERTIFICATE", der), keyPEM, ca.certPEM, "that was just made", "that was just made")
}

func (m *maker) template(name string, lifetime time.Duration) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("make serial number: %w", err)
	}
	return &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             m.now().Add(-skew),
		NotAfter:              m.now().Add(lifetime),
		BasicConstraintsValid: true,
	}, nil
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func encodeKey(key crypto.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode key: %w", err)
	}
	return encode("PRIVATE KEY", der), nil
}

// certificatesOf returns the certificates in a PEM text.
func certificatesOf(text []byte) ([]*x509.Certificate, error) {
	var all []*x509.Certificate
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		all = append(all, certificate)
	}
	if len(all) == 0 {
		return nil, errNoCertificate
	}
	return all, nil
}

// keyOf returns the private key in a PEM text, in any of the usual forms.
func keyOf(text []byte) (any, error) { //nolint:unparam // that there is one is what callers ask so far
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errNoKey
	}
	if key, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
		return key, nil
	}
	if key, err := x509.ParseECPrivateKey(block.Bytes); err == nil {
		return key, nil
	}
	return x509.ParsePKCS8PrivateKey(block.Bytes)
}
