package cert

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// files are a certificate and its key that another program renews.
type files struct{ cert, key, ca string }

// reload returns last if the files say the same as then.
func (f *files) reload(last *identity) (*identity, error) {
	certPEM, err := os.ReadFile(f.cert)
	if err != nil {
		return nil, fmt.Errorf("load certificate: %w", err)
	}
	keyPEM, err := os.ReadFile(f.key)
	if err != nil {
		return nil, fmt.Errorf("load key: %w", err)
	}
	var caPEM []byte
	if f.ca != "" {
		if caPEM, err = os.ReadFile(f.ca); err != nil {
			return nil, fmt.Errorf("load CA: %w", err)
		}
		if _, err := certificatesOf(caPEM); err != nil {
			return nil, fmt.Errorf("load CA %s: %w", f.ca, err)
		}
	}
	if last != nil && bytes.Equal(certPEM, last.certPEM) && bytes.Equal(keyPEM, last.keyPEM) && bytes.Equal(caPEM, last.caPEM) {
		return last, nil
	}
	return newIdentity(certPEM, keyPEM, caPEM, f.cert, f.key)
}

// folders are where the files are. Mounted Secrets are replaced by a symbolic link that
// changes in the folder itself.
func (f *files) folders() []string {
	all := []string{filepath.Dir(f.cert), filepath.Dir(f.key)}
	if f.ca != "" {
		all = append(all, filepath.Dir(f.ca))
	}
	slices.Sort(all)
	return slices.Compact(all)
}
