package plugin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/usher-dev/usher/internal/keyring"
	"github.com/usher-dev/usher/internal/proof"
	"github.com/usher-dev/usher/internal/reload"
)

// keysEvery is how often the files with the keys of proofs are read.
const keysEvery = 30 * time.Second

// proofs makes and checks the proofs of policies in the API, by keys in files.
type proofs struct {
	prover proof.Prover
	files  []string
	log    *slog.Logger
	keys   []keyring.Key
}

// read uses the keys that are in the files now. The first file has to exist.
func (p *proofs) read() (changed bool, err error) {
	var keys []keyring.Key
	for i, path := range p.files {
		content, err := os.ReadFile(path)
		if i > 0 && errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return false, fmt.Errorf("read key of policy proofs: %w", err)
		}
		key, err := keyring.KeyOf(content)
		if err != nil {
			return false, fmt.Errorf("read key of policy proofs %s: %w, and the file has %d", path, err, len(content))
		}
		keys = append(keys, key)
	}
	if slices.Equal(keys, p.keys) {
		return false, nil
	}
	p.keys = keys
	// No policy is from before there were proofs: nobody has recorded them.
	now := time.Now()
	p.prover.Use(proof.State{Sign: keys[0], Valid: keys, Record: proof.Record{Made: &now}})
	return true, nil
}

// follow keeps the keys current until ctx is done. It calls recheck when they have changed.
func (p *proofs) follow(ctx context.Context, recheck func()) error {
	reload.Loop{
		Every: keysEvery,
		Load: func(context.Context) error {
			changed, err := p.read()
			if changed {
				recheck()
			}
			return err
		},
		Report: func(err error) {
			p.log.WarnContext(ctx, "the keys of policy proofs that are known stay in use", "error", err)
		},
	}.Run(ctx)
	return nil
}
