package audit_test

import (
	"context"
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

// stopped returns an auditor that judges only when Next is called.
func stopped(t *testing.T, o audit.Options, versions ...string) *audited {
	t.Helper()
	x := &audited{t: t, cluster: newCluster(), sinks: map[result.Kind]*audit.Sink{}, rereads: make(chan result.Kind, 1000)}
	o.Judge = judge.Options{Facts: x.cluster}
	x.Auditor = audit.New(o)
	x.Enforce(compile.Order(policies(versions...)))
	for _, k := range kinds() {
		x.sinks[k] = x.Sink(k)
		x.read(k)
	}
	return x
}

// until judges until there is a result of a namespace, and returns how often.
func (x *audited) until(namespace string) int {
	x.t.Helper()
	for n := range 10000 {
		if len(x.lines(namespace)) > 0 {
			return n
		}
		if !x.Next() {
			break
		}
	}
	x.t.Fatalf("nothing is said about objects of namespace %s", namespace)
	return 0
}

func TestAChangedObjectDoesNotWait(t *testing.T) {
	t.Parallel()
	x := stopped(t, audit.Options{}, "team")
	for i := range 500 {
		x.set(configMaps, "evil", fmt.Sprintf("m%d", i), labelled(fmt.Sprint(i)))
	}
	x.set(configMaps, "good", "m", labelled())
	if n := x.until("good"); n > 4 {
		t.Errorf("behind changed objects of another namespace it waited for %d of them", n)
	}
	for x.Next() {
	}
	x.Enforce(compile.Order(policies("team 1")))
	if s := x.state(configMaps); s.Backlog != 501 {
		t.Fatalf("the state is %+v", s)
	}
	x.set(configMaps, "new", "m", labelled("team0"))
	if n := x.until("new"); n > 4 {
		t.Errorf("behind a changed policy it waited for %d objects", n)
	}
	// What is not urgent gets its turn among what is.
	for i := range 500 {
		x.set(configMaps, "evil", fmt.Sprintf("n%d", i), labelled("again", fmt.Sprint(i)))
	}
	for range 400 {
		x.Next()
	}
	urgent := 0
	for _, line := range x.lines("evil") {
		if strings.HasPrefix(line, "ConfigMap n") {
			urgent++
		}
	}
	if urgent < 300 || urgent > 380 {
		t.Errorf("%d of 400 that are judged are urgent", urgent)
	}
}

func TestKindsTakeTurns(t *testing.T) {
	t.Parallel()
	x := stopped(t, audit.Options{}, "team")
	x.sinks[configMaps].Begin()
	for i := range 500 {
		x.set(configMaps, "a", fmt.Sprintf("m%d", i), labelled(fmt.Sprint(i)))
	}
	x.sinks[configMaps].End()
	x.sinks[pods].Begin()
	x.set(pods, "b", "p", labelled())
	x.sinks[pods].End()
	if n := x.until("b"); n > 4 {
		t.Errorf("it waited for %d objects of another kind", n)
	}
}

func TestChanges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x := start(t, audit.Options{}, policies("team"))
		defer x.stop()
		x.set(configMaps, "a", "m", labelled())
		x.set(configMaps, "b", "m", labelled())
		synctest.Wait()
		all, version, next := x.Changes(0)
		if !slices.Contains(all, "a") || !slices.Contains(all, "b") {
			t.Errorf("changed are %v", all)
		}
		if again, _, _ := x.Changes(version); again != nil {
			t.Errorf("nothing has changed since, but %v", again)
		}
		// Neither its annotations nor those of others are read.
		changed := labelled()
		changed["metadata"].(map[string]any)["annotations"] = map[string]any{"n": "2"}
		x.set(configMaps, "a", "m", changed)
		for range 60 {
			time.Sleep(time.Minute)
			for _, s := range x.sinks {
				s.Heard()
			}
		}
		synctest.Wait()
		select {
		case <-next:
			t.Error("an hour in which nothing happens changes something")
		default:
		}
		if len(x.rereads) > 0 {
			t.Errorf("%d kinds are read once more", len(x.rereads))
		}
		x.set(configMaps, "a", "m", labelled("team0"))
		synctest.Wait()
		<-next
		if all, _, _ = x.Changes(version); !cmp.Equal(all, []string{"", "a"}) {
			t.Errorf("changed are %q", all)
		}
		_, version, _ = x.Changes(version)
		x.delete(configMaps, "b", "m")
		if all, _, _ = x.Changes(version); !cmp.Equal(all, []string{"b"}) {
			t.Errorf("changed are %q", all)
		}
		if got := x.Namespaces(); !cmp.Equal(got, []string{"a"}) {
			t.Errorf("the namespaces are %q", got)
		}
	})
}

func TestAKindIsNotReadOnceMoreTooOften(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x := start(t, audit.Options{}, policies("secret"))
		defer x.stop()
		x.set(secrets, "a", "m", map[string]any{})
		synctest.Wait()
		begin := time.Now()
		for i := range 300 {
			// Each has the data of Secrets read, which is not kept.
			x.Enforce(compile.Order(policies("secret" + []string{"", " 1"}[i%2])))
			synctest.Wait()
			for len(x.rereads) > 0 {
				x.read(<-x.rereads)
			}
			time.Sleep(time.Second)
		}
		synctest.Wait()
		if most := int(time.Since(begin)/(30*time.Second)) + 1; x.Stats().Evaluations > uint64(most)+1 {
			t.Errorf("it was read %d times in %s", x.Stats().Evaluations, time.Since(begin))
		}
		time.Sleep(time.Minute)
		for len(x.rereads) > 0 {
			x.read(<-x.rereads)
		}
		synctest.Wait()
		if s := x.state(secrets); !s.Complete {
			t.Errorf("at last the state is %+v", s)
		}
	})
}

func TestMetadataSuffices(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x := start(t, audit.Options{}, policies("team"))
		defer x.stop()
		if selects, only := x.Selects(configMaps); !selects || !only {
			t.Errorf("policies select the kind: %t; they read metadata only: %t", selects, only)
		}
		if selects, _ := x.Selects(secrets); selects {
			t.Error("no policy selects Secrets")
		}
		x.Remove(configMaps)
		s := x.MetadataSink(configMaps)
		x.sinks[configMaps] = s
		x.set(configMaps, "a", "m", labelled())
		x.read(configMaps)
		synctest.Wait()
		want := []string{"ConfigMap m team fail label it"}
		if diff := cmp.Diff(want, x.lines("a")); diff != "" {
			t.Error(diff)
		}
		// This one reads data, which the sink does not have.
		x.Enforce(compile.Order(policies("team", "vap", "binding")))
		synctest.Wait()
		if selects, only := x.Selects(configMaps); !selects || only {
			t.Errorf("policies select the kind: %t; they read metadata only: %t", selects, only)
		}
		x.set(configMaps, "a", "m", labelled("team0"))
		x.read(configMaps)
		synctest.Wait()
		if diff := cmp.Diff(want, x.lines("a")); diff != "" || x.state(configMaps).Complete {
			t.Errorf("what was said stays: %s\n%+v", diff, x.state(configMaps))
		}
		time.Sleep(time.Minute)
		if len(x.rereads) == 0 {
			t.Fatal("the kind is not read once more")
		}
		x.sinks[configMaps] = x.Sink(configMaps)
		x.read(configMaps)
		synctest.Wait()
		if got := x.lines("a"); got != nil || !x.state(configMaps).Complete {
			t.Errorf("at last: %v, %+v", got, x.state(configMaps))
		}
	})
}

func TestObjectsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	x := stopped(t, audit.Options{}, "team")
	for reason, object := range map[string]string{
		"no JSON": `{"metadata"`, "no object": `[]`, "no name": `{"metadata": {"namespace": "a"}}`, "a number as name": `{"metadata": {"name": 1}}`,
	} {
		if err := x.sinks[configMaps].Set([]byte(object)); err == nil {
			t.Errorf("%s: no error", reason)
		}
		if err := x.sinks[configMaps].Delete([]byte(object)); err == nil {
			t.Errorf("%s: no error of the deletion", reason)
		}
	}
}

func TestClusterScopedObjectsAreInNoNamespace(t *testing.T) {
	t.Parallel()
	x := stopped(t, audit.Options{}, "environments")
	x.sinkSet(namespaces, []byte(`{"metadata": {"name": "n", "namespace": "a", "labels": {"env": "v0"}}}`))
	for x.Next() {
	}
	if diff := cmp.Diff([]string{"Namespace n environments fail failed expression: object.metadata.?labels.?env.orValue('') != 'v0'"}, x.lines("")); diff != "" || len(x.lines("a")) > 0 {
		t.Errorf("%s\nin namespace a: %v", diff, x.lines("a"))
	}
	if err := x.sinks[namespaces].Delete([]byte(`{"metadata": {"name": "n", "namespace": "b"}}`)); err != nil || x.state(namespaces).Objects > 0 {
		t.Errorf("it is deleted: %v, %+v", err, x.state(namespaces))
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	stop()
	audit.New(audit.Options{}).Run(ctx)
}
