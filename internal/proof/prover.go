package proof

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/keyring"
)

// A State holds the keys and the record to make and check proofs with. It is immutable.
type State struct {
	// Sign is the key that makes proofs, and Valid are the keys whose proofs are valid.
	Sign  keyring.Key
	Valid []keyring.Key
	// Record is what stays in force without a proof.
	Record Record
}

// A Prover makes and checks the proofs of policies. Its zero value knows no keys. It is safe
// for concurrent use.
type Prover struct {
	// Refresh, if set, reads the keys again and calls Use. It is called when a policy that is
	// written has a proof by an unknown key, which another replica may have made just now.
	Refresh func(context.Context) error

	// Unknown, if set, is called when a stored policy has a proof by an unknown key. It must
	// not block.
	Unknown func()

	mu      sync.Mutex
	version atomic.Uint64
	state   atomic.Pointer[State]
}

// Use replaces the state.
func (p *Prover) Use(s State) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state.Store(&s)
	p.version.Add(1)
}

// Version changes whenever the results of Check may change. It is never 0 after Use.
func (p *Prover) Version() uint64 { return p.version.Load() }

// State returns the state that Use set last; nil before the first call.
func (p *Prover) State() *State { return p.state.Load() }

var errNoKey = errors.New("make proof: there is no key yet")

// Make returns the proof of a policy. The caller must have checked the rights of its writer.
func (p *Prover) Make(object api.Object) (string, error) {
	s := p.state.Load()
	if s == nil || s.Sign.IsZero() {
		return "", errNoKey
	}
	return Make(s.Sign, object)
}

// Prove reports whether a policy that is being written has a valid proof, and otherwise returns why
// not.
func (p *Prover) Prove(ctx context.Context, object api.Object) (why string) {
	why, known := p.check(object)
	if known || p.Refresh == nil {
		return why
	}
	// The proof stays unknown if this fails.
	_ = p.Refresh(ctx)
	why, _ = p.check(object)
	return why
}

func (p *Prover) check(object api.Object) (why string, known bool) {
	s := p.state.Load()
	if s == nil {
		return errNoKey.Error(), true
	}
	return check(s.Valid, object)
}

// Check returns what is known about the proof of a stored policy.
func (p *Prover) Check(object api.Object) api.Proof {
	kind, ok := api.KindOf(object)
	if !ok || !kind.NeedsProof {
		return api.Proof{}
	}
	why, known := p.check(object)
	if why == "" {
		return api.Proof{State: api.Proven}
	}
	if !known && p.Unknown != nil {
		p.Unknown()
	}
	if s := p.state.Load(); s != nil && kind.PredatesProofs && s.Record.has(object) {
		return api.Proof{State: api.Recorded, Why: "it is from before policies had proofs"}
	}
	return api.Proof{State: api.Unproven, Why: why}
}
