package audit_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/usher-dev/usher/internal/audit"
	"github.com/usher-dev/usher/internal/audit/judge"
	"github.com/usher-dev/usher/internal/audit/result"
	"github.com/usher-dev/usher/internal/compile"
)

// policies returns policies of the pool.
func policies(versions ...string) []compile.Compiled {
	var all []compile.Compiled
	for _, v := range versions {
		name, n, _ := strings.Cut(v, " ")
		for _, p := range pool() {
			if p.name == name {
				all = append(all, p.version(len(n)))
			}
		}
	}
	return all
}

// An audited is an auditor that runs, and what its kinds are read from.
type audited struct {
	*audit.Auditor

	t       *testing.T
	cluster *cluster
	sinks   map[result.Kind]*audit.Sink
	rereads chan result.Kind
	stop    context.CancelFunc
}

// start returns an auditor that enforces policies. Call it in a bubble.
func start(t *testing.T, o audit.Options, compiled []compile.Compiled) *audited {
	t.Helper()
	x := &audited{t: t, cluster: newCluster(), sinks: map[result.Kind]*audit.Sink{}, rereads: make(chan result.Kind, 1000)}
	o.Judge = judge.Options{Facts: x.cluster}
	o.Reread = func(k result.Kind) { x.rereads <- k }
	x.Auditor = audit.New(o)
	x.Enforce(compile.Order(compiled))
	for _, k := range kinds() {
		x.sinks[k] = x.Sink(k)
		x.read(k)
	}
	x.run()
	return x
}

func (x *audited) run() {
	ctx, stop := context.WithCancel(x.t.Context())
	x.stop = stop
	go x.Run(ctx)
}

func (x *audited) read(k result.Kind) {
	x.t.Helper()
	x.sinks[k].Begin()
	for _, object := range x.cluster.list(k) {
		x.sinkSet(k, object)
	}
	x.sinks[k].End()
}

func (x *audited) sinkSet(k result.Kind, object []byte) {
	x.t.Helper()
	if err := x.sinks[k].Set(object); err != nil {
		x.t.Fatal(err)
	}
}

func (x *audited) set(k result.Kind, namespace, name string, tree map[string]any) {
	x.t.Helper()
	x.sinkSet(k, x.cluster.put(k, namespace, name, tree))
}

func (x *audited) delete(k result.Kind, namespace, name string) {
	x.t.Helper()
	if err := x.sinks[k].Delete(x.cluster.remove(k, namespace, name)); err != nil {
		x.t.Fatal(err)
	}
}

func (x *audited) state(k result.Kind) result.KindState {
	x.t.Helper()
	all := x.Kinds()
	i := slices.IndexFunc(all, func(s result.KindState) bool { return s.Kind == k })
	if i < 0 {
		x.t.Fatalf("%s is not among %+v", k.Kind, all)
	}
	return all[i]
}

// lines returns the results of a namespace as text.
func (x *audited) lines(namespace string) []string {
	results, _ := x.Namespace(namespace)
	var all []string
	for _, r := range results {
		all = append(all, fmt.Sprintf("%s %s %s %s %s", r.Object.Kind, r.Object.Name, r.Policy.Name, r.Status, r.Message))
	}
	return all
}

func labelled(labels ...string) map[string]any {
	all := map[string]any{}
	for _, l := range labels {
		all[l] = "x"
	}
	return map[string]any{"metadata": map[string]any{"labels": all}}
}

func TestATenantDoesNotTakeTheMemoryOfOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const memory, many = 512 << 10, 3000
		x := start(t, audit.Options{Memory: memory}, policies("team"))
		defer x.stop()
		for i := range 20 {
			x.set(configMaps, "good", fmt.Sprintf("m%d", i), labelled(fmt.Sprintf("own%d", i)))
		}
		for i := range many {
			x.set(configMaps, "evil", fmt.Sprintf("m%d", i), labelled(fmt.Sprintf("l%d", i), strings.Repeat("x", 200)))
		}
		synctest.Wait()
		if got := len(x.lines("good")); got != 20 {
			t.Errorf("%d results of the other namespace, want 20", got)
		}
		s := x.state(configMaps)
		if s.Omitted == 0 || s.Objects+s.Omitted != many+20 || !s.Complete {
			t.Errorf("the state is %+v", s)
		}
		if used := x.Stats().Used; used > memory*11/10 {
			t.Errorf("%d bytes are used, of %d", used, memory)
		}
		lines := x.lines("evil")
		want := fmt.Sprintf("ConfigMap   error %d configmaps of namespace evil are not audited: the memory of the audit does not suffice, and namespace evil takes most of it", s.Omitted)
		if !slices.Contains(lines, want) {
			t.Errorf("nothing says what is omitted: %v", lines[len(lines)-1])
		}
		_, counts := x.Namespace("evil")
		if summary := counts.Total(); summary.Fail+summary.Error != many || summary.Error != s.Omitted {
			t.Errorf("of %d objects %d are omitted, the counts are %+v", many, s.Omitted, summary)
		}
		// What is omitted is deleted, and what is kept too.
		for i := range many - 10 {
			x.delete(configMaps, "evil", fmt.Sprintf("m%d", i))
		}
		// There is memory for the rest when it is read once more.
		x.read(configMaps)
		synctest.Wait()
		if s := x.state(configMaps); s.Omitted != 0 || s.Objects != 30 || len(x.lines("evil")) != 10 {
			t.Errorf("afterwards the state is %+v", s)
		}
	})
}

// TestObjectsThatAreNotKeptComeBack has more objects than there is memory for, then fewer.
func TestObjectsThatAreNotKeptComeBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const memory, many = 512 << 10, 3000
		x := start(t, audit.Options{Memory: memory}, policies("team"))
		defer x.stop()
		for i := range many {
			x.set(configMaps, "evil", fmt.Sprintf("m%d", i), labelled(fmt.Sprintf("l%d", i), strings.Repeat("x", 200)))
		}
		synctest.Wait()
		// reread has the kind read once more as often as the auditor asks for it in two hours.
		reread := func(reason string, want int) {
			t.Helper()
			got := 0
			for range 120 {
				time.Sleep(time.Minute)
				for ; len(x.rereads) > 0; got++ {
					x.read(<-x.rereads)
				}
				synctest.Wait()
			}
			if got != want {
				t.Errorf("%s: the kind was read once more %d times, want %d; %+v", reason, got, want, x.state(configMaps))
			}
		}
		// remove deletes objects of which there are results.
		remove := func(n int) {
			t.Helper()
			results, _ := x.Namespace("evil")
			for i := range results {
				if results[i].Object.Name != "" && n > 0 {
					x.delete(configMaps, "evil", results[i].Object.Name)
					n--
				}
			}
		}
		full := x.state(configMaps)
		if full.Omitted == 0 {
			t.Fatalf("nothing is left out: %+v", full)
		}
		reread("there is no memory", 0)
		remove(full.Objects)
		reread("there is memory for some", 1)
		some := x.state(configMaps)
		if some.Objects == 0 || some.Omitted == 0 || some.Objects+some.Omitted != many-full.Objects || !some.Complete {
			t.Errorf("%d were kept; now the state is %+v", full.Objects, some)
		}
		if used := x.Stats().Used; used > memory*8/10 {
			t.Errorf("%d bytes are used, of %d", used, memory)
		}
		for x.state(configMaps).Omitted > 0 && x.state(configMaps).Objects > 0 {
			remove(x.state(configMaps).Objects)
			reread("there is memory again", 1)
		}
		if s, lines := x.state(configMaps), x.lines("evil"); s.Omitted != 0 || s.Objects == 0 || !s.Complete || len(lines) != s.Objects {
			t.Errorf("at last the state is %+v, with %d results", s, len(lines))
		}
		reread("nothing is left out", 0)
	})
}

func TestLargePartsOfObjectsAreNotKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x := start(t, audit.Options{Memory: 1 << 20}, policies("team"))
		defer x.stop()
		for i := range 500 {
			x.set(configMaps, "evil", fmt.Sprintf("m%d", i), labelled(strings.Repeat(fmt.Sprint(i), 5000)))
		}
		x.set(configMaps, "good", "m", labelled("other"))
		synctest.Wait()
		if s := x.state(configMaps); s.Dropped != 500 || s.Omitted != 0 || s.Bytes > 100 || !s.Complete {
			t.Errorf("the state is %+v", s)
		}
		if len(x.lines("evil")) != 500 {
			t.Errorf("%d results", len(x.lines("evil")))
		}
		// A changed policy has the kind read once more; the results of before stay until then.
		x.Enforce(compile.Order(policies("team 1")))
		synctest.Wait()
		if s := x.state(configMaps); s.Complete || s.Backlog != 500 || len(x.lines("evil")) != 500 {
			t.Errorf("the state is %+v, and %d results stay", s, len(x.lines("evil")))
		}
		time.Sleep(time.Minute)
		if len(x.rereads) != 1 || <-x.rereads != configMaps {
			t.Fatalf("%d kinds are read once more", len(x.rereads))
		}
		x.read(configMaps)
		synctest.Wait()
		if s := x.state(configMaps); !s.Complete || s.Backlog != 0 || len(x.lines("evil")) != 500 {
			t.Errorf("the state is %+v", s)
		}
	})
}

// TestTextsOfObjectsArePacked has many objects that are alike, after some that are not.
func TestTextsOfObjectsArePacked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const objects = 500
		x := start(t, audit.Options{}, policies("team"))
		defer x.stop()
		text := 0
		for i := range 40 {
			x.set(configMaps, "a", fmt.Sprintf("odd%d", i), labelled(strings.Repeat(rand.Text(), 8)))
		}
		before := x.state(configMaps).Bytes
		for i := range objects {
			tree := labelled("app.kubernetes.io/name", "app.kubernetes.io/instance", "app.kubernetes.io/version", "app.kubernetes.io/component", "app.kubernetes.io/part-of", fmt.Sprint("own", i))
			text += len(tree["metadata"].(map[string]any)["labels"].(map[string]any)) * 20
			x.set(configMaps, "a", fmt.Sprintf("m%d", i), tree)
		}
		synctest.Wait()
		if s := x.state(configMaps); s.Dropped != 0 || s.Projections < objects || s.Bytes-before > int64(text/2) {
			t.Errorf("texts of over %d bytes take %d bytes, after others of %d: %+v", text, s.Bytes-before, before, s)
		}
		if n := len(x.lines("a")); n != objects+40 {
			t.Errorf("%d results", n)
		}
		// They are judged again from what is kept.
		x.Enforce(compile.Order(policies("team 1")))
		synctest.Wait()
		if s := x.state(configMaps); !s.Complete || len(x.lines("a")) != objects+40 || len(x.rereads) > 0 {
			t.Errorf("%+v, %d results", s, len(x.lines("a")))
		}
	})
}

func TestResultsOfANamespaceAreLimited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x := start(t, audit.Options{Results: 5}, policies("team"))
		defer x.stop()
		for i := range 8 {
			x.set(configMaps, "a", fmt.Sprintf("m%d", i), labelled())
		}
		synctest.Wait()
		want := []string{
			"ConfigMap m0 team fail label it", "ConfigMap m1 team fail label it", "ConfigMap m2 team fail label it", "ConfigMap m3 team fail label it",
			"ConfigMap m4 team fail label it", "Namespace a  error 3 more results of namespace a are counted, but not listed: at most 5 are",
		}
		if diff := cmp.Diff(want, x.lines("a")); diff != "" {
			t.Error(diff)
		}
		_, counts := x.Namespace("a")
		if summary := counts.Total(); summary != (result.Summary{Fail: 8, Error: 1}) {
			t.Errorf("the counts are %+v", summary)
		}
	})
}

func TestDataOfSecretsIsNotKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, keep := range []bool{false, true} {
			x := start(t, audit.Options{Secrets: keep}, policies("secret"))
			x.set(secrets, "a", "full", map[string]any{"data": map[string]any{"password": "c2VjcmV0"}})
			x.set(secrets, "a", "empty", map[string]any{})
			synctest.Wait()
			if diff := cmp.Diff([]string{"Secret empty secret fail not shown: it may repeat a secret"}, x.lines("a")); diff != "" {
				t.Error(diff)
			}
			if s := x.state(secrets); !s.Complete || (s.Bytes > 0) != keep {
				t.Errorf("kept: %t; the state is %+v", keep, s)
			}
			x.stop()
		}
	})
}

func TestResultsStayUntilThereAreOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x := start(t, audit.Options{}, policies("team", "named"))
		defer func() { x.stop() }()
		pod := func(labels ...string) map[string]any {
			tree := labelled(labels...)
			tree["spec"] = map[string]any{"containers": []any{}}
			return tree
		}
		x.set(pods, "a", "p0", pod())
		x.set(pods, "a", "p1", pod("team0"))
		synctest.Wait()
		both := []string{"Pod p0 named warn the name p0 is taken", "Pod p0 team fail label it"}
		expect := func(reason string, want []string, backlog int) {
			t.Helper()
			if diff := cmp.Diff(want, x.lines("a")); diff != "" {
				t.Errorf("%s: %s", reason, diff)
			}
			if s := x.state(pods); s.Backlog != backlog || s.Complete != (backlog == 0 && s.Err == nil) {
				t.Errorf("%s: %+v", reason, s)
			}
		}
		expect("all is judged", both, 0)
		x.stop()
		synctest.Wait()
		// Nothing is judged from here.
		x.set(pods, "a", "p0", pod("team0"))
		expect("a changed object", both, 1)
		x.Enforce(compile.Order(policies("team 1", "named 1")))
		expect("changed policies", both, 2)
		x.Enforce(compile.Order(policies("named 1")))
		expect("a policy that is gone", both[:1], 2)
		x.sinks[pods].Begin()
		x.sinks[pods].Fail(errors.New("pods is forbidden"))
		expect("a full read that fails", both[:1], 2)
		if diff := cmp.Diff([]string{"Pod  named error pods cannot be read: pods is forbidden"}, x.lines("")); diff != "" {
			t.Error(diff)
		}
		x.read(pods)
		x.delete(pods, "a", "p1")
		expect("one that succeeds", both[:1], 1)
		if got := x.lines(""); got != nil {
			t.Errorf("it can be read: %v", got)
		}
		x.run()
		synctest.Wait()
		expect("all is judged again", nil, 0)
		x.Remove(pods)
		if got := x.Namespaces(); slices.Contains(got, "a") {
			t.Errorf("the kind is gone, the namespaces are %v", got)
		}
	})
}
