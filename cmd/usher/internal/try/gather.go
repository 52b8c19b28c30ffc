package try

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/audit/result"
	"github.com/usher-dev/usher/internal/printable"
)

// What is gathered of a cluster for one attempt.
const (
	mostGathered      = 500
	mostGatheredBytes = 512 << 10
	mostLacks         = 20
)

// Gathered is what policies read to decide an attempt.
type Gathered struct {
	// Objects are those that exist.
	Objects []map[string]any
	// Lacks says what else they read, and why it is not among the objects.
	Lacks []string
}

// Gather decides an attempt by the objects that a resolver finds, and returns these. Nothing that holds credentials is
// read, no HTTP service is called, and no API server is asked what users may do.
func (t *Attempter) Gather(ctx context.Context, a *Attempt, from fact.Resolver) (*Gathered, error) {
	set, problems, err := t.Compile(ctx, a.Policies)
	if err != nil {
		return nil, err
	}
	g := &gatherer{from: from, seen: map[result.Identity]bool{}}
	if len(problems) > 0 {
		g.lack("the policies do not compile here: " + problems[0].String())
		return &g.Gathered, nil
	}
	f := &explainFlags{decideFlags: decideFlags{set: set, limits: t.limits}}
	q, err := f.ask(a)
	if err != nil {
		return nil, err
	}
	_, err = f.judge(ctx, set.Decider(g), set.Rules, q)
	g.mu.Lock()
	defer g.mu.Unlock()
	// A decision that was given up may still read.
	return &Gathered{slices.Clone(g.Objects), slices.Clone(g.Lacks)}, err
}

// A gatherer remembers what a resolver finds.
type gatherer struct {
	from fact.Resolver

	mu sync.Mutex
	Gathered

	seen  map[result.Identity]bool
	bytes int
}

// Resolve implements [fact.Resolver].
func (g *gatherer) Resolve(ctx context.Context, ref fact.Ref) (any, error) {
	o, ok := ref.(*fact.Object)
	switch {
	case !ok:
		g.lackLocked("a policy asks for " + ref.String() + ", which is not an object")
		return nil, ref.Unresolved()
	case ref.Confidential():
		g.lackLocked(ref.String() + " is not read here, since it holds credentials")
		return nil, ref.Unresolved()
	}
	value, err := g.from.Resolve(ctx, ref)
	g.mu.Lock()
	defer g.mu.Unlock()
	if err != nil {
		g.lack(err.Error())
		return value, err
	}
	switch found := value.(type) {
	case map[string]any:
		g.add(found)
	case []any:
		for _, item := range found {
			object, _ := item.(map[string]any)
			g.add(object)
		}
	case *fact.Sampled:
		g.sample(o, found)
	}
	return value, nil
}

func (g *gatherer) sample(of *fact.Object, found *fact.Sampled) {
	for i := range found.Objects {
		object := found.Objects[i].Decoded
		if object == nil && json.Unmarshal(found.Objects[i].JSON, &object) != nil {
			continue
		}
		if object["kind"] == nil {
			// Items of lists do not say what they are.
			object = runtime.DeepCopyJSON(object)
			object["apiVersion"], object["kind"] = of.APIVersion, of.Kind
		}
		g.add(object)
	}
	if left := found.Total - len(found.Objects); left > 0 {
		g.lack(fmt.Sprintf("%d more of %s", left, of))
	}
}

// add adds an object, once.
func (g *gatherer) add(object map[string]any) {
	of := result.IdentityOf(object)
	if object == nil || g.seen[of] {
		return
	}
	g.seen[of] = true
	encoded, err := json.Marshal(object)
	if err != nil || len(g.Objects) == mostGathered || g.bytes+len(encoded) > mostGatheredBytes {
		g.lack(of.String() + " and others: there is too much that the policies read")
		return
	}
	g.bytes += len(encoded)
	copied := runtime.DeepCopyJSON(object)
	unstructured.RemoveNestedField(copied, "metadata", "managedFields")
	g.Objects = append(g.Objects, copied)
}

func (g *gatherer) lackLocked(text string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lack(text)
}

func (g *gatherer) lack(text string) {
	if text = printable.Line(text); len(g.Lacks) < mostLacks && !slices.Contains(g.Lacks, text) {
		g.Lacks = append(g.Lacks, text)
	}
}
