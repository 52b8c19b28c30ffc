package report_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	"github.com/usher-dev/usher/internal/report"
	"github.com/usher-dev/usher/internal/rule"
)

var namespaced = v1alpha1.GroupVersion.WithResource("overridepolicies")

// written stores a policy of a namespace, and returns its state.
func (c *cluster) written(namespace, name, uid string, generation int64) rule.State {
	c.t.Helper()
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": "OverridePolicy",
		"metadata": map[string]any{"name": name, "namespace": namespace, "uid": uid, "generation": generation},
	}}
	if err := c.policies.Tracker().Create(namespaced, object, namespace); err != nil {
		c.t.Fatal(err)
	}
	return state(namespace, name, uid, generation)
}

func state(namespace, name, uid string, generation int64) rule.State {
	return rule.State{
		Policy: usher.PolicyRef{Kind: "OverridePolicy", Namespace: namespace, Name: name}, UID: types.UID(uid),
		Generation: generation, Compiled: true, Enforced: true,
	}
}

// conditions are those of a policy of a namespace.
func (c *cluster) conditions(namespace, name string) []map[string]any {
	c.t.Helper()
	object, err := c.policies.Tracker().Get(namespaced, namespace, name)
	if err != nil {
		c.t.Fatal(err)
	}
	all, _, _ := unstructured.NestedSlice(object.(*unstructured.Unstructured).Object, "status", "conditions")
	var conditions []map[string]any
	for _, condition := range all {
		conditions = append(conditions, condition.(map[string]any))
	}
	return conditions
}

// enforced reports whether the status of a policy of a namespace says that it is enforced.
func (c *cluster) enforced(namespace, name string) bool {
	c.t.Helper()
	return slices.ContainsFunc(c.conditions(namespace, name), func(condition map[string]any) bool {
		return condition["type"] == "Enforced" && condition["status"] == "True"
	})
}

// TestPoliciesThatAreCreatedAgainHoldUpNobody: a tenant deletes and creates policies under the same names, so
// that none is the one that a replica knows.
func TestPoliciesThatAreCreatedAgainHoldUpNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		one := c.replica("one")
		honest := c.written("team-b", "honest", "h", 1)
		for i := range 40 {
			c.written("team-a", fmt.Sprintf("m%d", i), fmt.Sprintf("now-%d", i), 1)
		}
		for round := range 20 {
			var s report.Snapshot
			for i := range 40 {
				s.Policies = append(s.Policies, state("team-a", fmt.Sprintf("m%d", i), fmt.Sprintf("then-%d-%d", round, i), 1))
			}
			if round == 10 {
				one.Observe(s)
				time.Sleep(time.Second)
			}
			if round >= 10 {
				s.Policies = append(s.Policies, honest)
			}
			one.Observe(s)
			time.Sleep(time.Second)
			if round == 14 && !c.enforced("team-b", "honest") {
				t.Error("5s after an honest policy is in force its status does not say so")
			}
		}
		if n := c.log.count("write policy status"); n != 0 {
			t.Errorf("%d log records of errors", n)
		}
	})
}

// TestNamespacesTakeTurns: a tenant edits five hundred policies every second, more than there are writes of
// status, and an honest one is edited once, before these.
func TestNamespacesTakeTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		one := c.replica("one")
		honest := c.written("team-b", "honest", "h", 1)
		many := make([]rule.State, 500)
		for i := range many {
			many[i] = c.written("team-a", fmt.Sprintf("m%d", i), fmt.Sprintf("m%d", i), 1)
		}
		for generation := range int64(10) {
			var s report.Snapshot
			for i := range many {
				many[i].Generation = generation + 1
				s.Policies = append(s.Policies, many[i])
			}
			s.Policies = append(s.Policies, honest)
			one.Observe(s)
			time.Sleep(time.Second)
		}
		if !c.enforced("team-b", "honest") {
			t.Error("the status of the honest policy is not written")
		}
		time.Sleep(30 * time.Second)
		for i := range many {
			if !c.enforced("team-a", many[i].Policy.Name) {
				t.Fatalf("after a while the status of %s is not written", many[i].Policy.Name)
			}
		}
	})
}

// TestEditsOfANamespaceConcernNoOtherOne: while a tenant edits policies, replicas never enforce the same.
func TestEditsOfANamespaceConcernNoOtherOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		one, two := c.replica("one"), c.replica("two")
		var others []rule.State
		for _, namespace := range []string{"team-b", "team-c", "team-d"} {
			others = append(others, c.written(namespace, "honest", namespace, 1))
		}
		c.create("b", "cluster", 1)
		others = append(others, rule.State{Policy: ref("b"), UID: "cluster", Generation: 1, Compiled: true, Enforced: true})
		many := make([]rule.State, 100)
		for i := range many {
			many[i] = c.written("team-a", fmt.Sprintf("m%d", i), fmt.Sprintf("m%d", i), 1)
		}
		at := func(generation int64) report.Snapshot {
			s := report.Snapshot{Policies: append([]rule.State{}, others...)}
			for i := range many {
				p := many[i]
				p.Generation = generation
				s.Policies = append(s.Policies, p)
			}
			return s
		}
		for generation := range int64(60) {
			one.Observe(at(2*generation + 2))
			two.Observe(at(2*generation + 1))
			time.Sleep(500 * time.Millisecond)
		}
		for _, namespace := range []string{"team-b", "team-c", "team-d"} {
			if !c.enforced(namespace, "honest") {
				t.Errorf("the policy of %s is not known to be enforced", namespace)
			}
		}
		c.wantEnforced("b", "True Enforced 1")
	})
}

// TestEventsOfANamespaceAreBounded: many policies of one tenant fail, and then one of another.
func TestEventsOfANamespaceAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		one := c.replica("one")
		var s report.Snapshot
		var failures []rule.Failure
		fails := func(p rule.State) {
			s.Policies = append(s.Policies, p)
			failures = append(failures, rule.Failure{UID: p.UID, Generation: 1, Rule: "spec", Error: "no such field", Example: "CREATE Pod shop/cart", Count: 1, Since: time.Now(), Last: time.Now()})
		}
		for i := range 100 {
			fails(c.written("team-a", fmt.Sprintf("m%d", i), fmt.Sprintf("m%d", i), 1))
		}
		one.Observe(s)
		c.fail(one, "one", failures...)
		time.Sleep(15 * time.Second)
		fails(c.written("team-b", "honest", "h", 1))
		one.Observe(s)
		c.fail(one, "one", failures...)
		time.Sleep(10 * time.Second)
		var theirs, told int
		for _, event := range c.events() {
			if strings.Contains(event, "honest") {
				told++
			} else {
				theirs++
			}
		}
		if told != 1 || theirs == 0 || theirs > 8 {
			t.Errorf("%d Events about the honest policy, %d about the others", told, theirs)
		}
	})
}

// TestFailuresOfANamespaceLeaveOthersTheirs: a tenant has more policies that fail than a replica tells others of, and
// for longer than an honest one. The replica that leads hears of both.
func TestFailuresOfANamespaceLeaveOthersTheirs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		one := c.replica("one")
		honest := c.written("team-b", "honest", "h", 1)
		s := report.Snapshot{Policies: []rule.State{honest}}
		var failures []rule.Failure
		fails := func(uid types.UID) {
			failures = append(failures, rule.Failure{UID: uid, Generation: 1, Rule: "spec", Error: "no such field", Example: "CREATE Pod shop/cart", Count: 1, Since: time.Now(), Last: time.Now()})
		}
		for i := range 100 {
			p := c.written("team-a", fmt.Sprintf("m%d", i), fmt.Sprintf("m%d", i), 1)
			s.Policies = append(s.Policies, p)
			fails(p.UID)
		}
		one.Observe(s)
		time.Sleep(5 * time.Second)
		two := c.replica("two")
		two.Observe(s)
		fails(honest.UID)
		c.fail(two, "two", failures...)
		time.Sleep(time.Minute)
		found := false
		for _, condition := range c.conditions("team-b", "honest") {
			found = found || condition["type"] == "Working" && condition["status"] == "False"
		}
		if !found {
			t.Errorf("conditions are %v", c.conditions("team-b", "honest"))
		}
	})
}
