package isolated

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	usherv1alpha1 "github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/internal/compile"
)

// A question is about one policy.
type question struct {
	text   json.RawMessage
	depth  compile.Depth
	digest digest
}

// A digest identifies the spec of a policy, and what compiles it.
type digest [sha256.Size]byte

// String returns as much of the digest as the condition of a policy shows.
func (d digest) String() string { return hex.EncodeToString(d[:8]) }

// A verdict is what is known about a digest.
type verdict struct {
	// depth is what was done.
	depth compile.Depth
	// reason is why that was stopped, and until when it is not tried again.
	reason string
	until  time.Time
}

// mostKnown limits the verdicts that are kept.
const mostKnown = 20_000

// checked reports whether policies of its kind have expressions that are compiled here. CUE is checked
// by workers of its own; other languages are not evaluated when they are compiled.
func checked(object api.Object) bool {
	kind, _ := api.KindOf(object)
	return kind.ObjectPolicy || kind.Authorizes || kind.Foreign && kind.Exemptible
}

// recall returns what is known about a policy, if that answers the question.
func (c *Checker) recall(object api.Object, q *question) (verdict, bool) {
	now := c.options.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	v, ok := c.known[q.digest]
	if reason := recorded(object, q.digest); !ok && reason != "" {
		v, ok = verdict{reason: reason, until: now.Add(c.options.Again)}, true
		c.keep(q.digest, v)
	}
	if v.reason != "" {
		return v, now.Before(v.until)
	}
	return v, ok && v.depth >= q.depth
}

// keep keeps a verdict; if there are too many, others are forgotten.
func (c *Checker) keep(d digest, v verdict) {
	for known := range c.known {
		if len(c.known) < mostKnown {
			break
		}
		delete(c.known, known)
	}
	c.known[d] = v
}

// questionOf returns the question about a policy: only what says what it does is sent to a worker.
func questionOf(object api.Object, depth compile.Depth) (*question, error) {
	kind, _ := api.KindOf(object)
	spec, err := json.Marshal(api.Spec(object))
	if err != nil {
		return nil, err
	}
	apiVersion, name := kind.ToAPIVersionAndKind()
	text, err := json.Marshal(map[string]any{
		"apiVersion": apiVersion, "kind": name, "spec": json.RawMessage(spec),
		"metadata": map[string]any{"name": object.GetName(), "namespace": object.GetNamespace()},
	})
	if err != nil {
		return nil, err
	}
	hash := sha256.New()
	for _, part := range []string{build(), apiVersion, name, string(spec)} {
		hash.Write([]byte(part))
		hash.Write([]byte{0})
	}
	q := &question{text: text, depth: depth}
	hash.Sum(q.digest[:0])
	return q, nil
}

// build identifies this program, which may compile what another one does not.
var build = sync.OnceValue(func() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" {
			return info.Main.Version + " " + setting.Value
		}
	}
	return info.Main.Version
})

// recorded returns why the policy with this digest was stopped, according to its status, which the
// leader has written; empty if it was not. Only policies of namespaces are believed: there, those who
// may write the status of a policy can stop no other one, and the policy itself not for long.
func recorded(object api.Object, d digest) string {
	if object.GetNamespace() == "" {
		return ""
	}
	var conditions []metav1.Condition
	switch p := object.(type) {
	case *usherv1alpha1.ObjectPolicy:
		conditions = p.Status.Conditions
	case *usherv1alpha1.AuthorizationPolicy:
		conditions = p.Status.Conditions
	}
	compiled := meta.FindStatusCondition(conditions, v1alpha1.ConditionCompiled)
	if compiled == nil || compiled.ObservedGeneration != object.GetGeneration() || !strings.Contains(compiled.Message, d.String()) {
		return ""
	}
	switch compiled.Reason {
	case v1alpha1.ReasonCompileTimeout, v1alpha1.ReasonCompileMemory, v1alpha1.ReasonCompileCrash:
		return compiled.Reason
	}
	return ""
}
