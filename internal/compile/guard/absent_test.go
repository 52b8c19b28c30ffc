package guard_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/compile/guard"
)

// TestAbsentData: who writes a policy whose data does not exist is told so if they may read it. Nothing is read
// for who may not.
func TestAbsentData(t *testing.T) {
	t.Parallel()
	const (
		match       = `matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [pods], operations: [CREATE]}]}, validations: [{expression: "true"}], podTemplates: "Off"`
		ofCluster   = `{apiVersion: usher.dev/v1alpha1, kind: ClusterObjectPolicy, metadata: {name: p}, spec: {` + match + `, %s}}`
		ofNamespace = `{apiVersion: usher.dev/v1alpha1, kind: ObjectPolicy, metadata: {name: p, namespace: shop}, spec: {` + match + `, %s}}`
		candidate   = `{apiVersion: usher.dev/v1alpha1, kind: PolicyCandidate, metadata: {name: c, namespace: shop}, spec: {policies: [` + ofNamespace + `]}}`
		quota       = `data: [{name: there, object: {apiVersion: v1, kind: ConfigMap, name: there}}, {name: q, object: {apiVersion: v1, kind: ConfigMap, name: quota}}]`
		elsewhere   = `data: [{name: q, object: {apiVersion: v1, kind: ConfigMap, namespace: bank, name: quota}}]`
		params      = `paramKind: {apiVersion: v1, kind: ConfigMap}, bindings: [{name: b, validationActions: [Deny], paramRef: {name: quota, namespace: shop, parameterNotFoundAction: Deny}}]`
		said        = "spec.data[1]: there is no v1 ConfigMap shop/quota: the policy fails for every request that reads data.q (create the object, while the policy is suspended if that is for it, too, or set onMissing: \"Null\")"
	)
	for _, test := range []struct {
		reason, kind, spec string
		// may are the objects that the writer may get, fails the error of reading them.
		may   []string
		fails error
		read  []string
		says  []string
	}{
		{"who may read it", ofNamespace, quota, []string{"shop/there", "shop/quota"}, nil, []string{"shop/there", "shop/quota"}, []string{said}},
		{"who may not", ofCluster, elsewhere, nil, nil, nil, nil},
		{"who may in another namespace", ofCluster, elsewhere, []string{"shop/quota"}, nil, nil, nil},
		{"of any namespace", ofCluster, elsewhere, []string{"bank/quota"}, nil, []string{"bank/quota"}, []string{
			"spec.data[0]: there is no v1 ConfigMap bank/quota: the policy fails for every request that reads data.q (create the object, while the policy is suspended if that is for it, too, or set onMissing: \"Null\")",
		}},
		{"of a candidate", candidate, quota, []string{"shop/there", "shop/quota"}, nil, []string{"shop/there", "shop/quota"}, []string{"spec.policies[0]." + said}},
		{"params", ofNamespace, params, []string{"shop/quota"}, nil, []string{"shop/quota"}, []string{
			"spec.bindings[0].paramRef: there is no v1 ConfigMap shop/quota: every request that the binding is for is denied (create the object, or correct spec.bindings[0].paramRef)",
		}},
		{"it may be missing", ofCluster, `data: [{name: q, onMissing: "Null", object: {apiVersion: v1, kind: ConfigMap, namespace: bank, name: quota}}]`, []string{"bank/quota"}, nil, nil, nil},
		{"its name is of the request", ofNamespace, `data: [{name: q, object: {apiVersion: v1, kind: ConfigMap, nameExpression: object.metadata.name}}]`, []string{"shop/quota", "shop/default"}, nil, nil, nil},
		{"the policy is suspended", ofNamespace, `suspend: true, ` + quota, []string{"shop/there", "shop/quota"}, nil, nil, []string{
			"spec.suspend: the policy is suspended: it decides nothing (set it to false to put it into force again)",
		}},
		{"it is not known", ofCluster, elsewhere, []string{"bank/quota"}, errors.New("no route"), []string{"bank/quota"}, nil},
		{"the kind is in no namespace", ofCluster, elsewhere, []string{"bank/quota"}, fmt.Errorf("%w: %w", &fact.NotFound{}, &fact.WrongScope{}), []string{"bank/quota"}, nil},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			var read []string
			g := guard.Wrap(usher.DeciderFunc(allow), guard.Options{
				Places: places,
				May: func(_ context.Context, r *usher.Request) (bool, error) {
					return r.Access.Verb != "get" || slices.Contains(test.may, r.Namespace+"/"+r.Name), nil
				},
				Facts: fact.ResolverFunc(func(_ context.Context, ref fact.Ref) (any, error) {
					o := ref.(*fact.Object)
					if o.AnyScope || !o.Live {
						t.Errorf("%s is read in any scope, or from memory", o)
					}
					read = append(read, o.Namespace+"/"+o.Name)
					switch {
					case test.fails != nil:
						return nil, test.fails
					case o.Name == "there":
						return map[string]any{}, nil
					}
					return nil, &fact.NotFound{Kind: o.Kind, Name: o.Name}
				}),
			})
			d, err := g.Decide(t.Context(), &usher.Request{
				Phase: usher.Validate, Operation: usher.Create, User: usher.User{Name: "ann"},
				Object: usher.TreeObject(object(t, fmt.Sprintf(test.kind, test.spec))),
			})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.read, read); diff != "" {
				t.Errorf("read (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.says, d.Warnings); diff != "" {
				t.Errorf("%s: warnings (-want +got):\n%s", d.Message, diff)
			}
		})
	}
}
