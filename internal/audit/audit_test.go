package audit_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/usher-dev/usher/internal/audit"
	"github.com/usher-dev/usher/internal/audit/judge"
	"github.com/usher-dev/usher/internal/audit/result"
	"github.com/usher-dev/usher/internal/compile"
)

// A world is a cluster, policies and an auditor, which random operations change.
type world struct {
	t        *testing.T
	rand     *rand.Rand
	cluster  *cluster
	auditor  *audit.Auditor
	sinks    map[result.Kind]*audit.Sink
	reread   chan result.Kind
	rereads  int
	policies map[string]int
	exempt   map[string]time.Time
	versions map[string]compile.Compiled
	log      []string
	stop     context.CancelFunc
	// lost are the kinds of which events were lost since they were read last.
	lost map[result.Kind]bool
	// broken says that facts could not be read since the state was compared last.
	broken bool
	// followed is what a reader knows that reads the namespaces that have changed since version.
	followed map[string][]result.Result
	version  uint64
}

func newWorld(t *testing.T, seed uint64, o audit.Options) *world {
	w := &world{
		t: t, rand: rand.New(rand.NewPCG(seed, 1)), cluster: newCluster(), sinks: map[result.Kind]*audit.Sink{},
		reread: make(chan result.Kind, 100), policies: map[string]int{}, exempt: map[string]time.Time{}, versions: map[string]compile.Compiled{}, lost: map[result.Kind]bool{}, followed: map[string][]result.Result{},
	}
	// Much changes while facts are read.
	w.cluster.setSlow(10 * time.Millisecond)
	o.Judge = judge.Options{Facts: w.cluster, Unsent: unsent}
	o.Reread = func(k result.Kind) { w.reread <- k }
	w.auditor = audit.New(o)
	for _, k := range kinds() {
		w.sinks[k] = w.auditor.Sink(k)
	}
	ctx, stop := context.WithCancel(t.Context())
	w.stop = stop
	go w.auditor.Run(ctx)
	for _, namespace := range []string{"a", "b", "c"} {
		w.cluster.put(namespaces, "", namespace, map[string]any{})
	}
	return w
}

func (w *world) sayf(format string, args ...any) { w.log = append(w.log, fmt.Sprintf(format, args...)) }

// compiled returns the policies in force. The same versions are the same, as from live.
func (w *world) compiled() []compile.Compiled {
	var all []compile.Compiled
	for _, p := range pool() {
		if n, in := w.policies[p.name]; in {
			key := fmt.Sprint(p.name, n)
			if _, known := w.versions[key]; !known {
				w.versions[key] = p.version(n)
			}
			all = append(all, w.versions[key])
		}
		if until, exempt := w.exempt[p.name]; exempt {
			key := fmt.Sprint(p.name, until)
			if _, known := w.versions[key]; !known {
				w.versions[key] = exemption(p.name, until)
			}
			all = append(all, w.versions[key])
		}
	}
	return all
}

// read is a full read of a kind, which may be cut.
func (w *world) read(k result.Kind, cut int) {
	s := w.sinks[k]
	s.Begin()
	for i, object := range w.cluster.list(k) {
		if w.rand.IntN(20) == 0 {
			w.enforce()
		}
		if i == cut {
			w.sayf("%s: the full read is cut after %d", k.Kind, cut)
			s.Fail(fmt.Errorf("cut"))
			return
		}
		w.set(k, object)
	}
	w.lost[k] = false
	s.End()
}

func (w *world) set(k result.Kind, object []byte) {
	// The buffer is used again.
	buffer := slices.Clone(object)
	if err := w.sinks[k].Set(buffer); err != nil {
		w.t.Fatal(err)
	}
	for i := range buffer {
		buffer[i] = 'x'
	}
}

// settle waits until all is judged.
func (w *world) settle() {
	for range 20 {
		synctest.Wait()
		again := false
		for len(w.reread) > 0 {
			k := <-w.reread
			w.rereads++
			w.sayf("%s: read once more", k.Kind)
			w.read(k, -1)
			again = true
		}
		if again {
			continue
		}
		for k, lost := range w.lost {
			if lost {
				w.sayf("%s: read again", k.Kind)
				w.read(k, -1)
				again = true
			}
		}
		synctest.Wait()
		waiting := slices.ContainsFunc(w.auditor.Kinds(), func(s result.KindState) bool { return !s.Complete })
		if !again && !waiting {
			return
		}
		// A kind is not read too often.
		time.Sleep(time.Minute)
	}
	w.t.Fatalf("it does not settle: %+v\n%s", w.auditor.Kinds(), strings.Join(w.log, "\n"))
}

// check compares the state with what a new auditor says, and with plain decisions.
func (w *world) check(o audit.Options) {
	w.settle()
	// Time stands still while the state is compared.
	slow := w.cluster.setSlow(0)
	defer w.cluster.setSlow(slow)
	policies := w.compiled()
	results, summaries := state(w.auditor)
	want, counts := w.cluster.said(policies)
	for name, all := range want {
		slices.SortStableFunc(all, byObject)
		want[name] = all
	}
	options := []gocmp.Option{cmpopts.EquateEmpty()}
	if diff := gocmp.Diff(want, results, options...); diff != "" {
		w.t.Fatalf("-plain decisions +state:\n%s\n%s", diff, strings.Join(w.log, "\n"))
	}
	var total result.Summary
	for name, summary := range summaries {
		if diff := gocmp.Diff(counts[name], summary, options...); diff != "" {
			w.t.Fatalf("namespace %q: -counts of plain decisions +counts:\n%s\n%s", name, diff, strings.Join(w.log, "\n"))
		}
		total.Merge(summary.Total())
		delete(counts, name)
	}
	if got := w.auditor.Stats().Results; got != total {
		w.t.Fatalf("all counts are %+v, want %+v\n%s", got, total, strings.Join(w.log, "\n"))
	}
	for name, summary := range counts {
		if len(summary) > 0 {
			w.t.Fatalf("namespace %q is missing, with %+v\n%s", name, summary, strings.Join(w.log, "\n"))
		}
	}
	w.follow()
	if diff := gocmp.Diff(results, w.followed, options...); diff != "" {
		w.t.Fatalf("-state +what a reader of changes knows:\n%s\n%s", diff, strings.Join(w.log, "\n"))
	}
	o.Judge = judge.Options{Facts: w.cluster, Unsent: unsent}
	other := audit.New(o)
	other.Enforce(compile.Order(policies))
	ctx, stop := context.WithCancel(w.t.Context())
	defer stop()
	go other.Run(ctx)
	for _, k := range kinds() {
		s := other.Sink(k)
		s.Begin()
		for _, object := range w.cluster.list(k) {
			if err := s.Set(object); err != nil {
				w.t.Fatal(err)
			}
		}
		s.End()
	}
	synctest.Wait()
	again, sums := state(other)
	if diff := gocmp.Diff(again, results, options...); diff != "" {
		w.t.Fatalf("-a new auditor +state:\n%s\n%s", diff, strings.Join(w.log, "\n"))
	}
	if diff := gocmp.Diff(sums, summaries); diff != "" {
		w.t.Fatalf("-a new auditor +counts:\n%s\n%s", diff, strings.Join(w.log, "\n"))
	}
	compareKinds(w, other.Kinds())
}

// follow reads the namespaces that have changed.
func (w *world) follow() {
	changed, version, _ := w.auditor.Changes(w.version)
	w.version = version
	for _, name := range changed {
		delete(w.followed, name)
		if all, _ := w.auditor.Namespace(name); len(all) > 0 {
			w.followed[name] = all
		}
	}
	// What was gone for long is no change any more.
	exist := w.auditor.Namespaces()
	maps.DeleteFunc(w.followed, func(name string, _ []result.Result) bool { return !slices.Contains(exist, name) })
}

func compareKinds(w *world, want []result.KindState) {
	ignored := cmpopts.IgnoreFields(result.KindState{}, "Heard", "Projections", "Bytes", "Dropped")
	if diff := gocmp.Diff(want, w.auditor.Kinds(), ignored); diff != "" {
		w.t.Fatalf("-a new auditor +kinds:\n%s\n%s", diff, strings.Join(w.log, "\n"))
	}
}

func byObject(a, b result.Result) int {
	at := func(r result.Result) int {
		if r.Object.Name == "" {
			return 1
		}
		return 0
	}
	order := map[string]int{"ConfigMap": 0, "Namespace": 1, "Pod": 2, "Secret": 3}
	return cmp.Or(
		cmp.Compare(order[a.Object.Kind], order[b.Object.Kind]), cmp.Compare(at(a), at(b)), cmp.Compare(a.Object.Name, b.Object.Name),
		cmp.Compare(a.Policy.Kind, b.Policy.Kind), cmp.Compare(a.Policy.Name, b.Policy.Name),
	)
}

// step makes one random change.
func (w *world) step() {
	namespace := []string{"a", "b", "c"}[w.rand.IntN(3)]
	switch n := w.rand.IntN(100); {
	case n < 45:
		w.change(namespace)
	case n < 55:
		k := kinds()[w.rand.IntN(3)]
		name := w.name(k)
		if object := w.cluster.remove(k, namespace, name); object != nil {
			w.event(k, object, "deleted")
			w.changed(k, namespace, name)
		}
	case n < 70:
		w.enforce()
	case n < 78:
		w.cluster.put(namespaces, "", namespace, map[string]any{"metadata": map[string]any{"labels": map[string]any{"env": fmt.Sprintf("v%d", w.rand.IntN(3))}}})
		w.sayf("namespace %s changes", namespace)
		w.event(namespaces, w.cluster.last(namespaces, "", namespace), "set")
		w.auditor.FactChanged(namespaces.Resource.GroupVersion().WithKind("Namespace"), "", namespace)
	case n < 84:
		d := time.Duration(w.rand.IntN(40)) * time.Minute
		w.sayf("%s pass", d)
		time.Sleep(d)
	case n < 90:
		k := kinds()[w.rand.IntN(4)]
		w.sayf("%s: events are lost", k.Kind)
		w.lost[k] = true
		w.sinks[k].Fail(fmt.Errorf("lost"))
	case n < 92:
		k := kinds()[w.rand.IntN(4)]
		w.lost[k] = true
		w.read(k, w.rand.IntN(6))
	case n < 94:
		w.recreate(namespace)
	case n < 97:
		w.broken = true
		w.sayf("facts of %s are broken: %t", namespace, w.cluster.toggleBroken(namespace))
	default:
		k := kinds()[w.rand.IntN(4)]
		w.sayf("%s is removed", k.Kind)
		w.auditor.Remove(k)
		w.sinks[k] = w.auditor.Sink(k)
		w.lost[k] = true
	}
	if w.rand.IntN(2) == 0 {
		synctest.Wait()
	}
	if w.rand.IntN(5) == 0 {
		w.follow()
	}
}

// recreate replaces an object by one that is the same but for its UID, while events are lost.
func (w *world) recreate(namespace string) {
	k := kinds()[w.rand.IntN(3)]
	w.cluster.recreate(k, namespace, w.name(k))
	w.sayf("an object of kind %s in %s is another one", k.Kind, namespace)
	w.read(k, -1)
}

func (w *world) name(k result.Kind) string {
	if k == configMaps && w.rand.IntN(2) == 0 {
		return "limits"
	}
	return fmt.Sprintf("p%d", w.rand.IntN(4))
}

// change sets an object.
func (w *world) change(namespace string) {
	k := kinds()[w.rand.IntN(3)]
	name := w.name(k)
	labels := map[string]any{}
	for i := range 3 {
		if w.rand.IntN(2) == 0 {
			labels[fmt.Sprintf("team%d", i)] = "x"
		}
	}
	tree := map[string]any{"metadata": map[string]any{"labels": labels, "annotations": map[string]any{"n": fmt.Sprint(w.rand.IntN(3))}}}
	switch k {
	case pods:
		tree["spec"] = map[string]any{"containers": []any{map[string]any{"name": "c", "image": []string{"latest", "v1"}[w.rand.IntN(2)]}}, "nodeName": fmt.Sprint(w.rand.IntN(3))}
		if w.rand.IntN(2) == 0 {
			tree["spec"].(map[string]any)["priority"] = w.rand.IntN(5)
		}
		tree["status"] = map[string]any{"phase": fmt.Sprint(w.rand.IntN(3))}
	case configMaps:
		tree["data"] = map[string]any{"most": []string{"1", "2", "none"}[w.rand.IntN(3)]}
	case secrets:
		if w.rand.IntN(2) == 0 {
			tree["data"] = map[string]any{"password": "c2VjcmV0"}
		}
	}
	w.event(k, w.cluster.put(k, namespace, name, tree), "set")
	w.changed(k, namespace, name)
}

// changed tells that an object may be one that policies use.
func (w *world) changed(k result.Kind, namespace, name string) {
	if k == configMaps {
		w.auditor.FactChanged(k.Resource.GroupVersion().WithKind(k.Kind), namespace, name)
	}
}

// event hands an event to the sink, unless events are lost.
func (w *world) event(k result.Kind, object []byte, what string) {
	w.sayf("%s %s %s", k.Kind, what, object)
	switch {
	case w.lost[k]:
	case what == "deleted":
		if err := w.sinks[k].Delete(object); err != nil {
			w.t.Fatal(err)
		}
	default:
		w.set(k, object)
	}
}

// enforce changes the policies.
func (w *world) enforce() {
	for range 1 + w.rand.IntN(3) {
		p := pool()[w.rand.IntN(len(pool()))]
		switch w.rand.IntN(5) {
		case 0:
			delete(w.policies, p.name)
			w.sayf("policy %s is gone", p.name)
		case 1:
			if w.rand.IntN(2) == 0 {
				w.exempt[p.name] = time.Now().Add(time.Duration(1+w.rand.IntN(60)) * time.Minute).Truncate(time.Second)
				w.sayf("policy %s has an exemption until %s", p.name, w.exempt[p.name])
			} else {
				delete(w.exempt, p.name)
			}
		default:
			w.policies[p.name] = w.rand.IntN(3)
			w.sayf("policy %s is version %d", p.name, w.policies[p.name])
		}
	}
	w.auditor.Enforce(compile.Order(w.compiled()))
}

func (c *cluster) last(k result.Kind, namespace, name string) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return text(c.objects[k][namespace+"/"+name])
}

func (c *cluster) recreate(k result.Kind, namespace, name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.objects[k][namespace+"/"+name]
	if before == nil {
		return
	}
	metadata := maps.Clone(before["metadata"].(map[string]any))
	c.uids++
	metadata["uid"] = fmt.Sprintf("0aa00000-0000-4000-8000-%012d", c.uids)
	again := maps.Clone(before)
	again["metadata"] = metadata
	c.objects[k][namespace+"/"+name] = again
}

func (c *cluster) toggleBroken(namespace string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.broken[namespace] = !c.broken[namespace]
	return c.broken[namespace]
}

func (c *cluster) setBroken(namespace string, broken bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.broken[namespace] = broken
}

// random runs random operations and compares the state from time to time.
func random(t *testing.T, seed uint64, steps int, o audit.Options) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, seed, o)
		defer w.stop()
		for _, k := range kinds() {
			w.read(k, -1)
		}
		for i := range steps {
			w.step()
			if w.rand.IntN(10) == 0 || i == steps-1 {
				w.repair()
				w.check(o)
			}
		}
	})
}

// repair makes facts readable. Nobody says so: what failed is tried again.
func (w *world) repair() {
	for _, namespace := range []string{"a", "b", "c"} {
		w.cluster.setBroken(namespace, false)
	}
	if w.broken {
		w.sayf("facts are repaired")
		w.settle()
		time.Sleep(2 * time.Hour)
		w.broken = false
	}
}

func TestStateEqualsAFullScan(t *testing.T) {
	t.Parallel()
	for seed := range uint64(30) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			o := audit.Options{Secrets: seed%3 == 0}
			if seed%2 == 0 {
				// No text is kept for long.
				o.Memory = 48 << 10
			}
			random(t, seed, 100, o)
		})
	}
}

func FuzzStateEqualsAFullScan(f *testing.F) {
	f.Add(uint64(1), uint16(100))
	f.Fuzz(func(t *testing.T, seed uint64, steps uint16) { random(t, seed, int(steps%500), audit.Options{}) })
}
