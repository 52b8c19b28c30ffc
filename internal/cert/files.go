package cert

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"
)

// files are a certificate and its key that somebody else renews.
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

// watch returns a channel that tells, some time after, that something has changed in one
// of the folders. Without fsnotify it stays silent.
func watch(folders []string) (changes <-chan struct{}, stop func()) {
	// pause gives whoever writes several files the time to do so.
	const pause = 100 * time.Millisecond
	out := make(chan struct{}, 1)
	if len(folders) == 0 {
		return out, func() {}
	}
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return out, func() {}
	}
	for _, folder := range folders {
		// One that cannot be watched is looked at from time to time.
		_ = watcher.Add(folder)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		timer := time.NewTimer(pause)
		timer.Stop()
		defer timer.Stop()
		for {
			select {
			case _, ok := <-watcher.Events:
				if !ok {
					return
				}
				timer.Reset(pause)
			case _, ok := <-watcher.Errors:
				if !ok {
					return
				}
				timer.Reset(pause)
			case <-timer.C:
				select {
				case out <- struct{}{}:
				default:
				}
			}
		}
	}()
	return out, func() {
		_ = watcher.Close()
		<-done
	}
}
