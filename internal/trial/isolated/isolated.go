// Package isolated compiles and tries policies in worker processes, where what takes too long or too
// much memory can be killed, before they are compiled in the process that decides.
//
// Programs that enforce policies of others must call [Main] at the start of main. Without it, a
// [Checker] lets all policies be compiled at once.
package isolated

import (
	"bytes"
	"context"
	_ "embed" // For the usual policies.
	"encoding/json"
	"sync"
	"time"

	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/lang/cue"
	"github.com/usher-dev/usher/internal/lang/worker"
	"github.com/usher-dev/usher/internal/trial"
)

// Main lets CUE be evaluated, and policies be compiled and tried, in separate processes, which are
// this program started again. Call it first in main, in place of [cue.Main]: in such a process it does
// not return. In tests, call it in TestMain.
func Main() {
	worker.Main(map[worker.Kind]worker.Handler{worker.CUE: cue.Handler(), worker.Policies: Handler(Try)})
}

// A request is to compile a policy, which is JSON.
type request struct {
	Policy json.RawMessage `json:"policy"`
	Depth  compile.Depth   `json:"depth"`
}

// Handler returns what answers requests of the kind [worker.Policies]: try compiles and tries a policy.
// The answer says nothing: whatever is wrong with the policy is found again, and reported, where it is
// compiled next; a panic as well.
func Handler(try func([]byte, compile.Depth)) worker.Handler {
	return worker.Handler{Prepare: prepare, Answer: func(data []byte) []byte {
		defer func() { _ = recover() }()
		var r request
		if err := json.Unmarshal(data, &r); err == nil {
			try(r.Policy, r.Depth)
		}
		return nil
	}}
}

// usual are policies with an expression in each of the environments that take long to make.
//
//go:embed usual.jsonl
var usual []byte

// prepare compiles and tries the usual policies.
func prepare() {
	for policy := range bytes.Lines(usual) {
		Try(policy, compile.Trying)
	}
}

// longestTrial limits the time to try a policy: what many requests select takes long, and only what
// does not end then is stopped.
const longestTrial = 250 * time.Millisecond

// samples is the trial of a worker.
var samples = sync.OnceValue(func() *trial.Trial { return trial.New(trial.Options{}) })

// Try compiles a policy as the parent does, except that it does not evaluate CUE, which has requests of
// its own, and tries it.
func Try(text []byte, depth compile.Depth) {
	policy, err := api.Decode(text)
	if err != nil {
		return
	}
	compiled := compile.Options{CUE: cue.None()}.Policy(context.Background(), policy)
	if depth == compile.Trying {
		ctx, cancel := context.WithTimeout(context.Background(), longestTrial)
		defer cancel()
		policies, _ := compiled.Parts()
		for i := range policies {
			samples().Try(ctx, policies[i])
		}
	}
}
