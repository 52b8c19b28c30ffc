//go:build unix

package hostile_test

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/fact/object"
)

// configMap is an object of 900 kB, for all expressions.
func configMap() manifest {
	finalizers, owners, labels := make([]any, 5000), make([]any, 1000), manifest{}
	for i := range finalizers {
		finalizers[i] = fmt.Sprintf("example.com/%015d", i)
	}
	for i := range owners {
		owners[i] = manifest{"apiVersion": "v1", "kind": "Pod", "name": fmt.Sprint("web-", i), "uid": fmt.Sprint(i), "controller": false}
		labels[fmt.Sprint("k", i)] = fmt.Sprint("v", i)
	}
	return manifest{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": manifest{"name": "web", "namespace": "shop", "labels": labels, "finalizers": finalizers, "ownerReferences": owners},
		"data": manifest{
			"text": long("a", 300_000), "half": long("a", 150_000), "pattern": "x{1000}x{1000}(a*)*b", "digits": "999999999", "nines": long("9", 100_000),
			"combining": long("e\u0301\u0302", 100_000), "controls": long("\x01\x1b\"\\\u202e", 50_000), "bytes": long("\u00ff", 50_000),
		},
	}
}

// requests are one about the object in each phase, and one to authorize.
func requests(t *testing.T) map[usher.Phase]*usher.Request {
	t.Helper()
	groups := make([]string, 5000)
	for i := range groups {
		groups[i] = fmt.Sprintf("team-%d", i)
	}
	data, _ := configMap()["data"].(manifest)
	extra := map[string][]string{"groups": groups}
	for key, value := range data {
		extra[key] = []string{fmt.Sprint(value)}
	}
	all := map[usher.Phase]*usher.Request{}
	for _, phase := range []usher.Phase{usher.Mutate, usher.Validate, usher.Authorize} {
		r := &usher.Request{
			Phase: phase, Operation: usher.Update, Kind: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, Resource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"},
			Name: "web", Namespace: "shop", User: usher.User{Name: "jane", Groups: groups, Extra: extra},
		}
		if phase == usher.Authorize {
			r.Name, r.Namespace, r.Operation, r.Kind = extra["text"][0], extra["half"][0], "", schema.GroupVersionKind{}
			r.Access = &usher.Access{Verb: "get"}
		} else {
			r.Object, r.OldObject = usher.TreeObject(configMap()), usher.TreeObject(configMap())
		}
		all[phase] = r
	}
	return all
}

// cluster are the objects of a cluster.
func cluster() fact.Resolver {
	return object.FromTrees([]map[string]any{{"apiVersion": "v1", "kind": "Namespace", "metadata": manifest{"name": "shop", "labels": manifest{"text": long("a", 200_000)}}}})
}
