// Package trace explains some decisions in the log, rule by rule.
package trace

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"log/slog"
	"math"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/explain"
	"github.com/usher-dev/usher/internal/rule"
)

// Options select the requests whose decisions are explained. The zero value selects none.
type Options struct {
	// Label and Annotation select objects with this key, or with "key=value".
	Label, Annotation Mark
	// Sample is the share of all requests that is selected, from 0 to 1.
	Sample float64
}

// A Mark is a label or annotation: any value if Value is empty. Without Key there is none.
type Mark struct{ Key, Value string }

func (o Options) enabled() bool { return o.Label.Key != "" || o.Annotation.Key != "" || o.Sample > 0 }

// Wrap returns a decider that decides as d does, and explains the requests that the options select,
// by the rules of their entry that are in force at about that time.
func Wrap(d usher.Decider, o Options, rules func(entry string) []rule.Rule, log *slog.Logger) usher.Decider {
	if !o.enabled() {
		return d
	}
	return usher.DeciderFunc(func(ctx context.Context, r *usher.Request) (usher.Decision, error) {
		decision, err := d.Decide(ctx, r)
		if err != nil || !o.picks(r) {
			return decision, err
		}
		// The context may be done when the decision is; explaining makes no calls.
		told, err := explain.Of(context.WithoutCancel(ctx), rules(r.Entry), r, decision, explain.Options{})
		if err != nil {
			log.WarnContext(ctx, "decision cannot be explained", "uid", r.UID, "error", err)
			return decision, nil
		}
		log.InfoContext(ctx, "trace", "uid", r.UID, "operation", string(r.Operation), "kind", r.Kind.Kind,
			"namespace", r.Namespace, "name", r.ObjectName(), "user", r.User.Name, "explanation", asJSON{told})
		return decision, nil
	})
}

// picks reports whether to explain a request.
func (o Options) picks(r *usher.Request) bool {
	if o.Sample > 0 && share(r.UID) < o.Sample {
		return true
	}
	if o.Label.Key == "" && o.Annotation.Key == "" {
		return false
	}
	tree, err := r.Target().Tree()
	if err != nil {
		return false
	}
	metadata, _ := tree["metadata"].(map[string]any)
	return o.Label.in(metadata["labels"]) || o.Annotation.in(metadata["annotations"])
}

func (m Mark) in(values any) bool {
	tree, _ := values.(map[string]any)
	value, ok := tree[m.Key]
	return m.Key != "" && ok && (m.Value == "" || value == m.Value)
}

// share maps a request to a number between 0 and 1, always the same one for the same request.
func share(uid string) float64 {
	hash := sha256.Sum256([]byte(uid))
	return float64(binary.BigEndian.Uint64(hash[:])>>11) / math.Exp2(53)
}

// asJSON is a value that both formats of the log show as JSON.
type asJSON struct{ value any }

// MarshalText implements [encoding.TextMarshaler].
func (a asJSON) MarshalText() ([]byte, error) { return json.Marshal(a.value) }

// MarshalJSON implements [json.Marshaler].
func (a asJSON) MarshalJSON() ([]byte, error) { return json.Marshal(a.value) }
