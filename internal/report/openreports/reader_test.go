package openreports_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/audit/result"
	"github.com/usher-dev/usher/internal/audit/result/resulttest"
)

// An audit is a result.Reader with given results.
type audit struct {
	mu         sync.Mutex
	namespaces map[string]said
	changed    map[string]uint64
	version    uint64
	next       chan struct{}
	kinds      map[string]result.KindState
}

type said struct {
	results []result.Result
	passes  int
}

func newAudit() *audit {
	a := &audit{namespaces: map[string]said{}, changed: map[string]uint64{}, next: make(chan struct{}), kinds: map[string]result.KindState{}}
	a.kind("Pod", true, nil)
	return a
}

// kind sets the state of a kind.
func (a *audit) kind(kind string, complete bool, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.kinds[kind] = result.KindState{
		Kind:     result.Kind{Resource: schema.GroupVersionResource{Version: "v1"}, Kind: kind},
		Complete: complete, Err: err,
	}
}

// set sets the results about a namespace.
func (a *audit) set(namespace string, passes int, results ...result.Result) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.version++
	a.namespaces[namespace] = said{results: results, passes: passes}
	if len(results) == 0 && passes == 0 {
		delete(a.namespaces, namespace)
	}
	a.changed[namespace] = a.version
	close(a.next)
	a.next = make(chan struct{})
}

func (a *audit) Namespaces() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Sorted(maps.Keys(a.namespaces))
}

func (a *audit) Namespace(name string) ([]result.Result, result.Counts) {
	a.mu.Lock()
	defer a.mu.Unlock()
	is := a.namespaces[name]
	return slices.Clone(is.results), resulttest.CountsOf(is.passes, is.results)
}

func (a *audit) Changes(after uint64) ([]string, uint64, <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var names []string
	for _, name := range slices.Sorted(maps.Keys(a.changed)) {
		if a.changed[name] > after {
			names = append(names, name)
		}
	}
	return names, a.version, a.next
}

func (a *audit) Kinds() []result.KindState {
	a.mu.Lock()
	defer a.mu.Unlock()
	var states []result.KindState
	for _, kind := range slices.Sorted(maps.Keys(a.kinds)) {
		states = append(states, a.kinds[kind])
	}
	return states
}

var errForbidden = errors.New("pods is forbidden")

// about returns a result about an object.
func about(namespace, kind, name string, status result.Status, message string) result.Result {
	return result.Result{
		Object: result.Identity{
			APIVersion: "v1", Kind: kind, Namespace: namespace, Name: name,
			UID: types.UID("0b7f6f5e-5c3f-4b8e-9d55-7a3f0c7e2a10"),
		},
		Policy:   usher.PolicyRef{Kind: "ClusterObjectPolicy", Name: "require-team"},
		Rule:     "spec.validations[0]",
		Status:   status,
		Message:  message,
		Field:    "metadata.labels.team",
		Category: "Ownership",
		Severity: "medium",
		Actions:  []usher.Action{usher.ActDeny},
	}
}

// failures returns n failures of pods.
func failures(namespace string, n int) []result.Result {
	all := make([]result.Result, n)
	for i := range all {
		all[i] = about(namespace, "Pod", fmt.Sprintf("app-%05d", i), result.Fail, "label team is required, for example team: payments")
	}
	return all
}
