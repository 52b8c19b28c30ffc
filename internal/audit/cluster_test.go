package audit_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/fact/object"
	"github.com/usher-dev/usher/internal/audit"
	"github.com/usher-dev/usher/internal/audit/judge"
	"github.com/usher-dev/usher/internal/audit/result"
	"github.com/usher-dev/usher/internal/audit/stream"
	"github.com/usher-dev/usher/internal/compile"
)

var (
	pods       = result.Kind{Resource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}, Kind: "Pod", Namespaced: true}
	configMaps = result.Kind{Resource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, Kind: "ConfigMap", Namespaced: true}
	secrets    = result.Kind{Resource: schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, Kind: "Secret", Namespaced: true}
	namespaces = result.Kind{Resource: schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}, Kind: "Namespace"}
)

// kinds are those that the tests audit.
func kinds() []result.Kind { return []result.Kind{pods, configMaps, secrets, namespaces} }

// A policy is the text of a policy, with the number of its version in place of %d.
type policy struct{ name, text string }

// pool are the policies of the tests, each in versions 0 to 2.
func pool() []policy {
	return []policy{
		{"team", `{"apiVersion": "usher.dev/v1alpha1", "kind": "ClusterObjectPolicy", "metadata": {"name": "team"}, "spec": {
			"matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods", "configmaps"]}]},
			"validations": [{"name": "label", "expression": "'team%d' in object.metadata.?labels.orValue({})", "message": "label it"}],
			"bindings": [{"name": "all", "validationActions": ["Deny"]}]}}`},
		{"named", `{"apiVersion": "usher.dev/v1alpha1", "kind": "ClusterObjectPolicy", "metadata": {"name": "named"}, "spec": {"severity": "high",
			"matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]},
			"validations": [{"expression": "object.metadata.name != 'p%d'", "messageExpression": "'the name ' + object.metadata.name + ' is taken'"}],
			"bindings": [{"name": "all", "validationActions": ["Warn"]}]}}`},
		{"production", `{"apiVersion": "usher.dev/v1alpha1", "kind": "ClusterObjectPolicy", "metadata": {"name": "production"}, "spec": {
			"matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
				"namespaceSelector": {"matchLabels": {"env": "v%d"}}},
			"validations": [{"expression": "object.spec.containers.all(c, c.image != 'latest')", "message": "pin the image"}],
			"bindings": [{"name": "all", "validationActions": ["Deny", "Audit"]}]}}`},
		{"params", `{"apiVersion": "usher.dev/v1alpha1", "kind": "ClusterObjectPolicy", "metadata": {"name": "params"}, "spec": {
			"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
			"matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]},
			"validations": [{"expression": "object.spec.?priority.orValue(0) <= int(params.data.most) + %d", "messageExpression": "'at most ' + params.data.most"}],
			"bindings": [{"name": "all", "validationActions": ["Deny"], "paramRef": {"name": "limits", "parameterNotFoundAction": "Deny"}}]}}`},
		{"whole", `{"apiVersion": "usher.dev/v1alpha1", "kind": "ClusterObjectPolicy", "metadata": {"name": "whole"}, "spec": {
			"matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods", "secrets"]}]},
			"validations": [{"expression": "size(object) + %d > 4", "message": "it has more"}],
			"bindings": [{"name": "all", "validationActions": ["Deny"]}]}}`},
		{"defaults", `{"apiVersion": "usher.dev/v1alpha1", "kind": "ClusterObjectPolicy", "metadata": {"name": "defaults"}, "spec": {
			"matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]},
			"mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": "has(object.spec.priority) ? [] : [JSONPatch{op: 'add', path: '/spec/priority', value: %d}]"}}]}}`},
		{"vap", `{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "vap"}, "spec": {
			"matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}]},
			"validations": [{"expression": "!has(object.data) || size(object.data) < %d + 1"}]}}`},
		{"binding", `{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": "vap"},
			"spec": {"policyName": "vap", "validationActions": ["Deny"], "matchResources": {"objectSelector": {"matchExpressions": [{"key": "v%d", "operator": "DoesNotExist"}]}}}}`},
		{"user", `{"apiVersion": "usher.dev/v1alpha1", "kind": "ClusterObjectPolicy", "metadata": {"name": "user"}, "spec": {
			"matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]},
			"validations": [{"expression": "request.userInfo.username != 'u%d'", "message": "not you"}],
			"bindings": [{"name": "all", "validationActions": ["Deny"]}]}}`},
		{"secret", `{"apiVersion": "usher.dev/v1alpha1", "kind": "ClusterObjectPolicy", "metadata": {"name": "secret"}, "spec": {
			"matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["secrets"]}]},
			"validations": [{"expression": "size(object.?data.orValue({})) > %d", "message": "it is empty"}],
			"bindings": [{"name": "all", "validationActions": ["Deny"]}]}}`},
		{"environments", `{"apiVersion": "usher.dev/v1alpha1", "kind": "ClusterObjectPolicy", "metadata": {"name": "environments"}, "spec": {
			"matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["namespaces"]}]},
			"validations": [{"expression": "object.metadata.?labels.?env.orValue('') != 'v%d'"}],
			"bindings": [{"name": "all", "validationActions": ["Deny"]}]}}`},
	}
}

func (p policy) version(n int) compile.Compiled {
	return compiled(strings.ReplaceAll(p.text, "%d", fmt.Sprint(n)))
}

// exemption exempts from a policy until a time.
func exemption(name string, until time.Time) compile.Compiled {
	return compiled(fmt.Sprintf(`{"apiVersion": "usher.dev/v1alpha1", "kind": "ClusterPolicyExemption", "metadata": {"name": "for-%[1]s"}, "spec": {
		"policyRefs": [{"kind": "ClusterObjectPolicy", "name": %[1]q}], "reason": "r", "owner": "o", "expiresAt": %[2]q}}`, name, until.UTC().Format(time.RFC3339)))
}

func compiled(text string) compile.Compiled {
	p, err := api.Decode([]byte(text))
	if err != nil {
		panic(err)
	}
	c := compile.Policy(p)
	for _, problem := range c.Problems {
		panic(text + ": " + problem.Text())
	}
	return c
}

// A cluster is the objects that exist.
type cluster struct {
	mu      sync.Mutex
	objects map[result.Kind]map[string]map[string]any
	// broken says that facts of a namespace cannot be read.
	broken map[string]bool
	uids   int
	// slow is how long it takes until a fact that was read is there.
	slow time.Duration
}

func newCluster() *cluster {
	c := &cluster{objects: map[result.Kind]map[string]map[string]any{}, broken: map[string]bool{}}
	for _, k := range kinds() {
		c.objects[k] = map[string]map[string]any{}
	}
	return c
}

// put adds an object, or replaces it, and returns its text.
func (c *cluster) put(k result.Kind, namespace, name string, tree map[string]any) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	metadata, _ := tree["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{}
	}
	tree["apiVersion"], tree["kind"], tree["metadata"] = "v1", k.Kind, metadata
	metadata["name"] = name
	if namespace != "" {
		metadata["namespace"] = namespace
	}
	key := namespace + "/" + name
	if before := c.objects[k][key]; before != nil {
		metadata["uid"] = before["metadata"].(map[string]any)["uid"]
	} else {
		c.uids++
		metadata["uid"] = fmt.Sprintf("0aa00000-0000-4000-8000-%012d", c.uids)
		if c.uids%7 == 0 {
			metadata["uid"] = fmt.Sprintf("no UUID %d", c.uids)
		}
	}
	c.objects[k][key] = tree
	return text(tree)
}

// remove deletes an object and returns its last text, nil if there is none.
func (c *cluster) remove(k result.Kind, namespace, name string) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := namespace + "/" + name
	tree := c.objects[k][key]
	delete(c.objects[k], key)
	if tree == nil {
		return nil
	}
	return text(tree)
}

// list returns the objects of a kind, as text.
func (c *cluster) list(k result.Kind) [][]byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all [][]byte
	for _, key := range slices.Sorted(maps.Keys(c.objects[k])) {
		all = append(all, text(c.objects[k][key]))
	}
	return all
}

func text(tree map[string]any) []byte {
	data, err := json.Marshal(tree)
	if err != nil {
		panic(err)
	}
	return data
}

var errBroken = errors.New("the API server does not answer")

// Resolve implements [fact.Resolver].
func (c *cluster) Resolve(ctx context.Context, ref fact.Ref) (any, error) {
	value, slow, err := c.resolve(ctx, ref)
	time.Sleep(slow)
	return value, err
}

// setSlow sets how long it takes until a fact is there, and returns how long it took before.
func (c *cluster) setSlow(slow time.Duration) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.slow
	c.slow = slow
	return before
}

func (c *cluster) resolve(ctx context.Context, ref fact.Ref) (any, time.Duration, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if o, ok := ref.(*fact.Object); ok && (c.broken[o.Namespace] || c.broken[o.Name]) {
		return nil, c.slow, errBroken
	}
	var trees []map[string]any
	for _, of := range c.objects {
		for _, tree := range of {
			trees = append(trees, tree)
		}
	}
	value, err := object.FromTrees(trees).Resolve(ctx, ref)
	return value, c.slow, err
}

// unsent has API servers send nothing of a namespace.
func unsent(r *usher.Request) string {
	if r.Namespace == "b" {
		return "a reason"
	}
	return ""
}

// said returns what policies say about all objects, without an auditor: each whole object is judged.
func (c *cluster) said(policies []compile.Compiled) (map[string][]result.Result, map[string]result.Counts) {
	j := judge.New(compile.Order(policies), judge.Options{Facts: c, Unsent: unsent})
	results, summaries := map[string][]result.Result{}, map[string]result.Counts{}
	for _, k := range kinds() {
		plan := j.Plan(k)
		if plan == nil {
			continue
		}
		for _, u := range plan.Unjudged() {
			results[""] = append(results[""], result.Result{Object: result.Identity{APIVersion: "v1", Kind: k.Kind}, Policy: u.Policy, Rule: u.Rule, Status: result.Skip, Message: u.Reason})
		}
		for _, data := range c.list(k) {
			tree, err := usher.RawObject(data).Tree()
			if err != nil {
				panic(err)
			}
			said, err := plan.Judge(context.Background(), tree, nil)
			if err != nil {
				panic(err)
			}
			metadata := tree["metadata"].(map[string]any)
			namespace, _ := metadata["namespace"].(string)
			of := result.Identity{APIVersion: "v1", Kind: k.Kind, Namespace: namespace, Name: metadata["name"].(string), UID: types.UID(metadata["uid"].(string))}
			if summaries[namespace] == nil {
				summaries[namespace] = result.Counts{}
			}
			counts := summaries[namespace]
			for _, s := range said {
				counts.Add(s.Policy, result.Summary{Pass: s.Pass, Skip: s.Skip})
				for _, r := range s.Results {
					r.Object = of
					var one result.Summary
					one.Add(r.Status, 1)
					counts.Add(s.Policy, one)
					results[namespace] = append(results[namespace], r)
				}
			}
		}
	}
	return results, summaries
}

// state returns what an auditor says about all objects.
func state(r result.Reader) (map[string][]result.Result, map[string]result.Counts) {
	results, summaries := map[string][]result.Result{}, map[string]result.Counts{}
	for _, name := range r.Namespaces() {
		all, counts := r.Namespace(name)
		if len(all) > 0 {
			results[name] = all
		}
		summaries[name] = counts
	}
	return results, summaries
}

var (
	_ result.Reader = (*audit.Auditor)(nil)
	_ stream.Sink   = (*audit.Sink)(nil)
)
