package cert

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// The files of a folder.
const (
	caCert  = "ca.crt"
	caKey   = "ca.key"
	tlsCert = "tls.crt"
	tlsKey  = "tls.key"
)

// A keeper makes certificates and keeps them in a folder.
type keeper struct {
	maker *maker
	dir   string
}

func (k *keeper) path(name string) string { return filepath.Join(k.dir, name) }

// renew returns the certificate in the folder while it is valid, and otherwise makes and writes a
// new one.
func (k *keeper) renew(last *identity) (*identity, error) {
	if last != nil && k.maker.lasts(last.certificate.Leaf) {
		return last, nil
	}
	if err := os.MkdirAll(k.dir, 0o755); err != nil {
		return nil, fmt.Errorf("keep certificate: %w", err)
	}
	ca, err := k.authority()
	if err != nil {
		return nil, err
	}
	kept, err := k.leaf(ca)
	if err != nil || kept != nil {
		return kept, err
	}
	made, err := k.maker.makeLeaf(ca)
	if err != nil {
		return nil, err
	}
	if err := k.write(tlsKey, made.keyPEM, 0o600); err != nil {
		return nil, err
	}
	return made, k.write(tlsCert, made.certPEM, 0o644)
}

// authority returns the CA in the folder, or a new one. A CA that cannot be read is not replaced:
// clients trust it, and an operator has to know.
func (k *keeper) authority() (*authority, error) {
	certPEM, err := k.read(caCert)
	if err != nil {
		return nil, err
	}
	keyPEM, err := k.read(caKey)
	if err != nil {
		return nil, err
	}
	if certPEM != nil && keyPEM != nil {
		pair, err := newIdentity(certPEM, keyPEM, nil, k.path(caCert), k.path(caKey))
		if err != nil {
			return nil, err
		}
		if !pair.certificate.Leaf.IsCA {
			return nil, fmt.Errorf("load CA %s: %w", k.path(caCert), errNotCA)
		}
		if k.maker.lasts(pair.certificate.Leaf) {
			return &authority{certificate: pair.certificate.Leaf, key: pair.certificate.PrivateKey, certPEM: certPEM}, nil
		}
	}
	made, err := k.maker.makeCA()
	if err != nil {
		return nil, err
	}
	if keyPEM, err = encodeKey(made.key); err != nil {
		return nil, err
	}
	if err := k.write(caKey, keyPEM, 0o600); err != nil {
		return nil, err
	}
	return made, k.write(caCert, made.certPEM, 0o644)
}

// leaf returns the certificate that is kept, nil if there is none to go on with.
func (k *keeper) leaf(ca *authority) (*identity, error) {
	certPEM, err := k.read(tlsCert)
	if err != nil || certPEM == nil {
		return nil, err
	}
	keyPEM, err := k.read(tlsKey)
	if err != nil || keyPEM == nil {
		return nil, err
	}
	kept, err := newIdentity(certPEM, keyPEM, ca.certPEM, k.path(tlsCert), k.path(tlsKey))
	if err != nil {
		return nil, nil //nolint:nilerr // what is not a pair is replaced: it is ours
	}
	leaf := kept.certificate.Leaf
	if !k.maker.lasts(leaf) || !covers(leaf, k.maker.hosts) || leaf.CheckSignatureFrom(ca.certificate) != nil {
		return nil, nil //nolint:nilerr // what another CA has signed is replaced, too
	}
	return kept, nil
}

// read returns nil for a file that does not exist.
func (k *keeper) read(name string) ([]byte, error) {
	content, err := os.ReadFile(k.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read certificate: %w", err)
	}
	return content, nil
}

// write replaces a file as a whole: others may be reading it.
func (k *keeper) write(name string, content []byte, mode os.FileMode) error {
	temporary, err := os.CreateTemp(k.dir, "."+name+"-")
	if err != nil {
		return fmt.Errorf("keep certificate: %w", err)
	}
	defer func() { _ = os.Remove(temporary.Name()) }()
	_, err = temporary.Write(content)
	if err := errors.Join(err, temporary.Chmod(mode), temporary.Close()); err != nil {
		return fmt.Errorf("keep certificate: %w", err)
	}
	if err := os.Rename(temporary.Name(), k.path(name)); err != nil {
		return fmt.Errorf("keep certificate: %w", err)
	}
	return nil
}
