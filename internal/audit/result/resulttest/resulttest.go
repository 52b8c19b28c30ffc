// Package resulttest has results of an audit for tests of what shows them.
package resulttest

import (
	"maps"
	"slices"
	"sync"

	"github.com/usher-dev/usher/internal/audit/result"
)

// A Reader has fixed results until they are changed. It is safe for concurrent use.
type Reader struct {
	// Pass is how often a rule has passed in each namespace, and States are those of kinds.
	Pass   int
	States []result.KindState

	mu      sync.Mutex
	results map[string][]result.Result
}

// Set sets the results about a namespace.
func (r *Reader) Set(namespace string, results []result.Result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.results == nil {
		r.results = map[string][]result.Result{}
	}
	r.results[namespace] = results
}

// Namespaces implements [result.Reader].
func (r *Reader) Namespaces() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(maps.Keys(r.results))
}

// Namespace implements [result.Reader].
func (r *Reader) Namespace(name string) ([]result.Result, result.Counts) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.results[name]), CountsOf(r.Pass, r.results[name])
}

// CountsOf counts results. Those that passed are of a policy "passes".
func CountsOf(passed int, results []result.Result) result.Counts {
	counts := result.Counts{}
	passes := result.PolicySummary{Summary: result.Summary{Pass: passed}}
	passes.Kind, passes.Name = "ClusterObjectPolicy", "passes"
	counts.Add(passes.PolicyRef, passes.Summary)
	for i := range results {
		var one result.Summary
		one.Add(results[i].Status, 1)
		counts.Add(results[i].Policy, one)
	}
	return counts
}

// Changes implements [result.Reader]: it tells of none.
func (r *Reader) Changes(uint64) ([]string, uint64, <-chan struct{}) { return nil, 0, nil }

// Kinds implements [result.Reader].
func (r *Reader) Kinds() []result.KindState { return r.States }
