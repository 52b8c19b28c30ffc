package cert

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"
)

const (
	// sharedAhead is how long before its end a certificate that replicas share is renewed.
	sharedAhead = 90 * 24 * time.Hour
	// settling is how long a new CA is only trusted, before it is used: time for
	// everything that has to trust it to hear of it.
	settling = 24 * time.Hour
)

var errForeign = errors.New("it holds a certificate that Usher did not make: name another Secret, or give Usher the certificate as files")

// A rotation is one step from the values in a Secret to those to use now. A step depends only on
// the values and the clock, so that replicas can take turns.
type rotation struct {
	maker *maker
	// newest signs, trusted are all CAs that clients are to trust.
	newest  *authority
	trusted []*x509.Certificate
	caPEM   []byte
	// changed means that the values differ from the given ones.
	changed bool
}

// next returns the values that follow those of a Secret. A server that is starting requires a
// certificate for its hosts. A running one keeps a certificate for other hosts that a replica of
// another version has made: otherwise the two would replace each other's forever.
func (r *rotation) next(values map[string][]byte, starting bool) (map[string][]byte, error) {
	if err := r.read(values); err != nil {
		return nil, err
	}
	if r.newest == nil || !r.maker.lives(r.newest.certificate, sharedAhead) {
		if err := r.renewCA(); err != nil {
			return nil, err
		}
	}
	keyPEM, err := encodeKey(r.newest.key)
	if err != nil {
		return nil, err
	}
	leaf := r.leaf(values, starting)
	if leaf == nil {
		r.changed = true
		if leaf, err = r.maker.makeLeaf(r.newest); err != nil {
			return nil, err
		}
	}
	return map[string][]byte{caCert: r.caPEM, caKey: keyPEM, tlsCert: leaf.certPEM, tlsKey: leaf.keyPEM}, nil
}

// read reads the CAs in the values; there may be none if there is nothing else. CAs that cannot be
// read are not replaced: clients trust them, and an operator has to know.
func (r *rotation) read(values map[string][]byte) error {
	certPEM, keyPEM := values[caCert], values[caKey]
	if len(certPEM) == 0 && len(keyPEM) == 0 && len(values[tlsCert]) == 0 && len(values[tlsKey]) == 0 {
		return nil
	}
	if len(certPEM) == 0 || len(keyPEM) == 0 {
		return errForeign
	}
	const remedy = "delete the Secret to have a new one made"
	all, err := certificatesOf(certPEM)
	if err != nil {
		return fmt.Errorf("load %s: %w; %s", caCert, err, remedy)
	}
	// The key is that of the first, which is the newest.
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		if _, keyErr := keyOf(keyPEM); keyErr != nil {
			err = keyErr
		}
		return fmt.Errorf("load %s: %w; %s", caKey, err, remedy)
	}
	r.newest = &authority{certificate: all[0], key: pair.PrivateKey, certPEM: encode("CERTIFICATE", all[0].Raw)}
	r.trusted, r.caPEM = all, certPEM
	return nil
}

// renewCA makes a new CA; clients trust it and those that are still valid.
func (r *rotation) renewCA() error {
	made, err := r.maker.makeCA()
	if err != nil {
		return err
	}
	trusted := []*x509.Certificate{made.certificate}
	bundle := bytes.Clone(made.certPEM)
	for _, old := range r.trusted {
		if r.maker.lives(old, 0) {
			trusted = append(trusted, old)
			bundle = append(bundle, encode("CERTIFICATE", old.Raw)...)
		}
	}
	r.newest, r.trusted, r.caPEM, r.changed = made, trusted, bundle, true
	return nil
}

// leaf returns the serving certificate in the values, nil if it is time for a new one.
func (r *rotation) leaf(values map[string][]byte, starting bool) *identity {
	kept, err := newIdentity(values[tlsCert], values[tlsKey], r.caPEM, tlsCert, tlsKey)
	if err != nil {
		return nil
	}
	leaf := kept.certificate.Leaf
	if !r.maker.lives(leaf, 0) || !r.isTrusted(leaf) || starting && !covers(leaf, r.maker.hosts) {
		return nil
	}
	if leaf.CheckSignatureFrom(r.newest.certificate) == nil {
		if r.maker.lives(leaf, sharedAhead) {
			return kept
		}
		return nil
	}
	made := r.newest.certificate.NotBefore.Add(skew)
	if r.maker.now().Before(made.Add(settling)) {
		return kept
	}
	return nil
}

func (r *rotation) isTrusted(leaf *x509.Certificate) bool {
	for _, ca := range r.trusted {
		if r.maker.lives(ca, 0) && leaf.CheckSignatureFrom(ca) == nil {
			return true
		}
	}
	return false
}
