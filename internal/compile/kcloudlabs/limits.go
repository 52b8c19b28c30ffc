package kcloudlabs

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/rule"
)

// owners are the kinds that a policy of a namespace can read with "from: owner": the workloads of
// Kubernetes. The author of an object chooses its owners, so any kind would mean every object of
// the namespace.
func owners() []fact.Read {
	return []fact.Read{
		{APIVersion: "apps/v1", Kind: "DaemonSet"},
		{APIVersion: "apps/v1", Kind: "Deployment"},
		{APIVersion: "apps/v1", Kind: "ReplicaSet"},
		{APIVersion: "apps/v1", Kind: "StatefulSet"},
		{APIVersion: "batch/v1", Kind: "CronJob"},
		{APIVersion: "batch/v1", Kind: "Job"},
	}
}

// bounds returns which facts a rule with these references may ask for; nil if all.
func (c *compilation) bounds(refs []*v1alpha1.ResourceRefer) *fact.Bounds {
	var reads []fact.Read
	for _, ref := range refs {
		switch {
		case ref.From == v1alpha1.FromOwner:
			reads = append(reads, owners()...)
		case ref.From == v1alpha1.FromK8s && ref.K8s != nil && !c.isOwnNamespace(ref.K8s):
			reads = append(reads, readOf(ref.K8s))
		}
	}
	return c.compiler.Limits.Bounds(c.ref.Namespace, reads)
}

func readOf(s *v1alpha1.ResourceSelector) fact.Read {
	read := fact.Read{APIVersion: s.APIVersion, Kind: s.Kind, Name: s.Name, Lists: s.Name == ""}
	if hasPlaceholder(s.Name) {
		read.Name = ""
	}
	return read
}

func hasPlaceholder(text string) bool { return strings.Contains(text, "{{") }

func (c *compilation) isOwnNamespace(s *v1alpha1.ResourceSelector) bool {
	return s.APIVersion == "v1" && s.Kind == "Namespace" && s.Namespace == "" &&
		(s.Name == c.ref.Namespace || strings.ReplaceAll(s.Name, " ", "") == "{{metadata.namespace}}")
}

// excludedKinds refuses selectors for kinds that policies of a namespace do not act on.
func (c *compilation) excludedKinds(selectors []v1alpha1.ResourceSelector) {
	if c.ref.Namespace == "" {
		return
	}
	c.excluded = c.compiler.Limits.Namespaced.Excluded()
	for i := range selectors {
		if s := &selectors[i]; c.excluded.Has(s.APIVersion, s.Kind) {
			c.fail(fmt.Sprintf("spec.resourceSelectors[%d].kind", i),
				rule.NoAction(s.APIVersion+" "+s.Kind),
				fmt.Sprintf("ask who administers the cluster for a ClusterOverridePolicy, or to allow it: --namespaced-kinds=%s", nameOf(s.APIVersion, s.Kind)))
		}
	}
}

// nameOf is a kind as flags name it.
func nameOf(apiVersion, kind string) string {
	return rule.Kinds{schema.FromAPIVersionAndKind(apiVersion, kind).GroupKind()}.String()
}

// refer reports problems with the facts that a reference needs.
func (c *compilation) refer(field string, ref *v1alpha1.ResourceRefer) {
	switch {
	case ref.From == v1alpha1.FromK8s && ref.K8s != nil && c.ref.Namespace != "":
		c.referObject(join(field, "k8s"), ref.K8s)
	case ref.From == v1alpha1.FromHTTP && ref.Http != nil:
		c.fetches(join(field, "http.url"), ref.Http.URL)
		if auth := ref.Http.Auth; auth != nil && auth.StaticToken == "" && auth.AuthURL != "" {
			c.fetches(join(field, "http.auth.authUrl"), auth.AuthURL)
		}
	}
}

func (c *compilation) referObject(field string, s *v1alpha1.ResourceSelector) {
	gk := schema.FromAPIVersionAndKind(s.APIVersion, s.Kind).GroupKind()
	if c.compiler.Limits.Namespaced.References.Has(gk) || c.isOwnNamespace(s) || hasPlaceholder(s.Namespace) || s.Namespace == c.ref.Namespace {
		return
	}
	what := fmt.Sprintf("a policy of namespace %s reads objects of that namespace only, and its own Namespace", c.ref.Namespace)
	if s.Namespace == "" && s.Name == "" {
		what = "without a namespace, the selector is for all namespaces: " + what
	}
	c.fail(join(field, "namespace"), what,
		fmt.Sprintf("write namespace: %s, or ask who administers the cluster for a ClusterOverridePolicy, or to allow it: --namespaced-references=%s",
			c.ref.Namespace, nameOf(s.APIVersion, s.Kind)))
}

// fetches reports an address that the policy may not call. An empty address is known only when a
// request is decided.
func (c *compilation) fetches(field, address string) {
	if what, do := c.compiler.Limits.Fetches(c.ref.Namespace, address); what != "" {
		c.fail(field, what, do)
	}
}

// A fetcher is a program that may ask for facts over HTTP, at an address that it computes.
type fetcher interface{ Fetches() bool }

// facts checks the facts that the steps of a rule need, and returns its references.
func (c *compilation) facts(field string, steps []rule.Step, refs map[string]*v1alpha1.ResourceRefer) []*v1alpha1.ResourceRefer {
	var all []*v1alpha1.ResourceRefer
	for name, ref := range refs {
		if ref != nil {
			c.refer(join(field, name), ref)
			all = append(all, ref)
		}
	}
	for _, s := range steps {
		if f, ok := s.Program.(fetcher); ok && s.Name == "cue" && f.Fetches() {
			c.fetches(join(field, "cue"), "")
		}
	}
	return all
}

// overrideReferences returns the references of an override rule, each with its field.
func overrideReferences(o *v1alpha1.Overriders) map[string]*v1alpha1.ResourceRefer {
	if o.Template == nil || o.Template.ValueRef == nil {
		return nil
	}
	return map[string]*v1alpha1.ResourceRefer{"template.valueRef": o.Template.ValueRef}
}

// validateReferences returns the references of a validate rule, each with its field.
func validateReferences(r *v1alpha1.ValidateRule) map[string]*v1alpha1.ResourceRefer {
	refs := map[string]*v1alpha1.ResourceRefer{}
	if r.Template == nil {
		return nil
	}
	if condition := r.Template.Condition; condition != nil {
		refs["template.condition.dataRef"], refs["template.condition.valueRef"] = condition.DataRef, condition.ValueRef
	}
	if badge := r.Template.PodAvailableBadge; badge != nil {
		ref := &v1alpha1.ResourceRefer{From: v1alpha1.FromOwner}
		if own := badge.ReplicaReference; own != nil {
			ref = &v1alpha1.ResourceRefer{From: own.From, K8s: own.K8s, Http: own.Http}
		}
		refs["template.podAvailableBadge.replicaReference"] = ref
	}
	return refs
}
