package situations

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/yaml"
)

// atOnce is how many requests are made at a time.
const atOnce = 8

// prepare makes everything except the policies.
func (s *side) prepare(ctx context.Context, all []*situation) error {
	if err := s.discover(ctx); err != nil {
		return err
	}
	if err := s.prepareKinds(ctx); err != nil {
		return err
	}
	var group errgroup.Group
	group.SetLimit(atOnce)
	group.Go(func() error {
		return errors.Join(s.given(ctx, "", &request{Do: "create namespaces/sentinel"}), s.given(ctx, "sentinel", &request{Do: "create limits.situations.example"}))
	})
	for _, situation := range all {
		group.Go(func() error {
			namespace := &request{Do: "create namespaces/" + situation.name, With: map[string]any{"metadata": map[string]any{
				"labels": map[string]any{"situation": situation.name, "env": "test"}, "annotations": map[string]any{"owner": "ann"},
			}}}
			if err := s.given(ctx, "", namespace); err != nil {
				return err
			}
			for i := range situation.Given {
				if err := s.given(ctx, situation.name, &situation.Given[i]); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// prepareKinds makes the custom resources, and waits until the API server serves them.
func (s *side) prepareKinds(ctx context.Context) error {
	text, err := os.ReadFile("testdata/crds/crds.yaml")
	if err != nil {
		return err
	}
	for part := range strings.SplitSeq(string(text), "\n---\n") {
		var object map[string]any
		if err := yaml.Unmarshal([]byte(part), &object); err != nil {
			return fmt.Errorf("read CRDs: %w", err)
		}
		metadata, _ := object["metadata"].(map[string]any)
		if err := s.given(ctx, "", &request{Do: fmt.Sprintf("create customresourcedefinitions.apiextensions.k8s.io/%s", metadata["name"]), With: object}); err != nil {
			return err
		}
	}
	for {
		if err := s.discover(ctx); err != nil {
			return err
		}
		served := true
		for _, resource := range []string{"widgets.v1.situations.example/scale", "widgets.v1beta1.situations.example", "gadgets.situations.example", "limits.situations.example", "ceilings.situations.example"} {
			_, ok := s.kinds[resource]
			served = served && ok
		}
		if served {
			return nil
		}
		if err := pause(ctx); err != nil {
			return fmt.Errorf("wait for custom resources: %w", err)
		}
	}
}

// given makes a request that must succeed.
func (s *side) given(ctx context.Context, namespace string, r *request) error {
	a, err := s.do(ctx, namespace, r)
	if err != nil {
		return err
	}
	if a.Code >= http.StatusBadRequest {
		return fmt.Errorf("%s: %s", r.Do, a)
	}
	return nil
}

// resources are those of policies, in the order in which they are made: a binding is in force as
// soon as it exists.
var resources = []string{validating, mutating, validating + "Binding", mutating + "Binding"}

// install makes policies. The sentinels come last.
func (s *side) install(ctx context.Context, policies []map[string]any) error {
	for _, kind := range resources {
		var group errgroup.Group
		group.SetLimit(atOnce)
		refused := make([]error, len(policies))
		var last *request
		for i, object := range policies {
			if object["kind"] != kind {
				continue
			}
			metadata, _ := object["metadata"].(map[string]any)
			plural := strings.Replace(strings.ToLower(kind)+"s", "policys", "policies", 1)
			r := &request{Do: fmt.Sprintf("create %s.admissionregistration.k8s.io/%s", plural, metadata["name"]), With: object}
			if metadata["name"] == sentinel {
				last = r
				continue
			}
			group.Go(func() error {
				refused[i] = s.given(ctx, "", r)
				return nil
			})
		}
		_ = group.Wait()
		if err := errors.Join(refused...); err != nil {
			return err
		}
		if last != nil {
			if err := s.given(ctx, "", last); err != nil {
				return err
			}
		}
	}
	return nil
}

// sentinel is the name of the policies that tell when the others are in force.
const sentinel = "zz-sentinel"

// sentinels deny everything in the namespace sentinel: one needs params, which an API server finds
// some time after their kind.
func sentinels() []map[string]any {
	text := `
kind: ValidatingAdmissionPolicy
metadata: {name: zz-sentinel}
spec:
  paramKind: {apiVersion: situations.example/v1, kind: Limit}
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}
  validations: [{expression: "false", message: in force}]
---
kind: ValidatingAdmissionPolicyBinding
metadata: {name: zz-sentinel}
spec:
  policyName: zz-sentinel
  validationActions: [Deny]
  paramRef: {selector: {}, parameterNotFoundAction: Deny}
  matchResources: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: sentinel}}}
---
kind: MutatingAdmissionPolicy
metadata: {name: zz-sentinel}
spec:
  paramKind: {apiVersion: situations.example/v1, kind: Limit}
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [secrets]}]}
  reinvocationPolicy: Never
  mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: "Object{metadata: Object.metadata{labels: {'in-force': 'true'}}}"}}]
---
kind: MutatingAdmissionPolicyBinding
metadata: {name: zz-sentinel}
spec:
  policyName: zz-sentinel
  paramRef: {selector: {}, parameterNotFoundAction: Deny}
  matchResources: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: sentinel}}}
`
	var all []map[string]any
	for part := range strings.SplitSeq(text, "---") {
		var object map[string]any
		if err := yaml.Unmarshal([]byte(part), &object); err != nil {
			panic(err)
		}
		all = append(all, with(map[string]any{"apiVersion": "admissionregistration.k8s.io/v1"}, object))
	}
	return all
}
