package reference

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	"github.com/usher-dev/usher/internal/rule"
)

// Uses returns what the reference reads, for [rule.Traced]: the value itself, which is the first, and
// what placeholders name. Field is that of the reference.
func (r *Reference) Uses(field string) []rule.Use {
	use := rule.Use{Field: field + ".path", Paths: r.path.names(), Kind: r.kind}
	use.Indexed = slices.ContainsFunc(use.Paths, func(p []string) bool { return slices.Contains(p, rule.Element) })
	switch r.from {
	case v1alpha1.FromCurrentObject:
		use.Of = rule.CurrentObject
	case v1alpha1.FromOldObject:
		use.Of = rule.OldObject
	case v1alpha1.FromOwner:
		use.Of = rule.OwnerObject
	case v1alpha1.FromK8s:
		use.Of = rule.OtherObject
	case v1alpha1.FromHTTP:
		// An answer has no schema.
		use.Paths = nil
	}
	all := []rule.Use{use}
	for _, p := range r.patterns {
		for _, path := range p.paths {
			all = append(all, rule.Use{Field: field, Paths: [][]string{slices.Clone(path)}})
		}
	}
	return all
}

// names returns the steps of a path as schemas have them; nil for an open one.
func (p *Path) names() [][]string {
	if p.open != "" {
		return nil
	}
	all := make([][]string, len(p.chains))
	for i, chain := range p.chains {
		for _, s := range chain {
			if s.key == nil {
				all[i] = append(all[i], rule.Element)
			} else {
				all[i] = append(all[i], *s.key)
			}
		}
	}
	return all
}

// Uses returns what the interpolations of a text read, for [rule.Traced].
func (t *Text) Uses(field string) []rule.Use {
	var all []rule.Use
	for i := range t.parts {
		p := &t.parts[i]
		if p.root == "" || p.open != "" {
			continue
		}
		use := rule.Use{Field: field, Paths: p.path.names()}
		if p.root == "oldObject" {
			use.Of = rule.OldObject
		}
		all = append(all, use)
	}
	return all
}

// patterns returns the texts with placeholders of an object.
func (o *objectSource) patterns() []pattern {
	all := []pattern{o.namespace, o.name}
	for _, p := range o.labels {
		all = append(all, p)
	}
	return all
}

func (o *objectSource) gvk() schema.GroupVersionKind {
	return schema.FromAPIVersionAndKind(o.apiVersion, o.kind)
}

// patterns returns the texts with placeholders of a URL.
func (u *urlPattern) patterns() []pattern {
	all := []pattern{u.text}
	for _, p := range u.params {
		all = append(all, p.value)
	}
	return all
}
