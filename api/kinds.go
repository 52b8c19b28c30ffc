package api

import (
	"cmp"
	"reflect"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"

	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	usherv1alpha1 "github.com/usher-dev/usher/api/usher/v1alpha1"
)

// A Kind is a kind of policy: one row of the table that defines all kinds.
type Kind struct {
	schema.GroupVersionKind

	// Resource is the plural name under which API servers serve the policies.
	Resource string
	// Namespaced says that policies apply to their own namespace.
	Namespaced bool
	// Authorizes says that policies decide authorization requests, and not writes of objects.
	Authorizes bool
	// NeedsProof says that policies of a cluster are in force only if their writer is known to have
	// had the right to write them: they grant rights, or act with more rights than their author
	// has.
	NeedsProof bool
	// PredatesProofs says that there are policies of the kind from before proofs, which stay in force
	// without one until they are edited.
	PredatesProofs bool
	// Exempts says that policies of the kind exempt requests from other policies.
	Exempts bool
	// Candidate says that policies of the kind embed others, and have them evaluated without effect.
	Candidate bool
	// Exemptible says that requests can be exempt from policies of the kind, and Validations is the field
	// with a list of what requests can be exempt from one by one; empty if policies only mutate.
	Exemptible  bool
	Validations string
	// ObjectPolicy says that policies have bindings of their own, and permit exemptions of namespaces.
	ObjectPolicy bool
	// Recent says that ClusterRoles and CRDs of the release before do not have the kind: a server
	// that may not read it enforces the other kinds.
	Recent bool
	// Foreign says that the kind is one of Kubernetes. API servers enforce policies of these kinds
	// themselves: Usher enforces those in files, and others only if it is told to.
	Foreign bool
	// Since is the minor version of Kubernetes that first serves a foreign kind; 0 if all that are known do.
	Since int
	// New makes an empty policy.
	New func() Object

	object reflect.Type
	spec   func(Object) any
}

// IsNamed reports whether users mean the kind by a word, as kubectl does: its name, or its resource, in any
// case, and with its group or without.
func (k *Kind) IsNamed(word string) bool {
	word = strings.TrimSuffix(strings.ToLower(word), "."+k.Group)
	return word == strings.ToLower(k.Kind) || word == k.Resource
}

// IsValidation reports whether a rule of a policy of the kind is a validation by itself.
func (k *Kind) IsValidation(rule string) bool {
	return k.Validations != "" && strings.HasPrefix(rule, k.Validations+"[")
}

// GroupVersionResource is the resource of the kind, as clients name it.
func (k *Kind) GroupVersionResource() schema.GroupVersionResource {
	return k.GroupVersion().WithResource(k.Resource)
}

// kinds are all kinds, sorted by name. This package variable is a constant table of the API.
var kinds = slices.Concat([]Kind{
	row(Kind{GroupVersionKind: v1alpha1.GroupVersion.WithKind("ClusterOverridePolicy"), Resource: "clusteroverridepolicies", Exemptible: true},
		func(p *v1alpha1.ClusterOverridePolicy) any { return &p.Spec }),
	row(Kind{GroupVersionKind: v1alpha1.GroupVersion.WithKind("ClusterValidatePolicy"), Resource: "clustervalidatepolicies", Exemptible: true, Validations: "spec.validateRules"},
		func(p *v1alpha1.ClusterValidatePolicy) any { return &p.Spec }),
	row(Kind{GroupVersionKind: v1alpha1.GroupVersion.WithKind("OverridePolicy"), Resource: "overridepolicies", Exemptible: true, Namespaced: true, NeedsProof: true, PredatesProofs: true},
		func(p *v1alpha1.OverridePolicy) any { return &p.Spec }),
	row(Kind{GroupVersionKind: usherv1alpha1.GroupVersion.WithKind("AuthorizationPolicy"), Resource: "authorizationpolicies", Namespaced: true, Authorizes: true, NeedsProof: true, PredatesProofs: true},
		func(p *usherv1alpha1.AuthorizationPolicy) any { return &p.Spec }),
	row(Kind{GroupVersionKind: usherv1alpha1.GroupVersion.WithKind("ClusterAuthorizationPolicy"), Resource: "clusterauthorizationpolicies", Authorizes: true, NeedsProof: true, PredatesProofs: true},
		func(p *usherv1alpha1.ClusterAuthorizationPolicy) any { return &p.Spec }),
	row(Kind{GroupVersionKind: usherv1alpha1.GroupVersion.WithKind("ClusterObjectPolicy"), Resource: "clusterobjectpolicies", Exemptible: true, Validations: "spec.validations", ObjectPolicy: true, Recent: true},
		func(p *usherv1alpha1.ClusterObjectPolicy) any { return &p.Spec }),
	row(Kind{GroupVersionKind: usherv1alpha1.GroupVersion.WithKind("ClusterPolicyCandidate"), Resource: "clusterpolicycandidates", Recent: true, NeedsProof: true, Candidate: true},
		func(p *usherv1alpha1.ClusterPolicyCandidate) any { return &p.Spec }),
	row(Kind{GroupVersionKind: usherv1alpha1.GroupVersion.WithKind("ClusterPolicyExemption"), Resource: "clusterpolicyexemptions", Recent: true, NeedsProof: true, Exempts: true},
		func(p *usherv1alpha1.ClusterPolicyExemption) any { return &p.Spec }),
	row(Kind{GroupVersionKind: usherv1alpha1.GroupVersion.WithKind("ObjectPolicy"), Resource: "objectpolicies", Exemptible: true, Validations: "spec.validations", ObjectPolicy: true, Recent: true, Namespaced: true, NeedsProof: true},
		func(p *usherv1alpha1.ObjectPolicy) any { return &p.Spec }),
	row(Kind{GroupVersionKind: usherv1alpha1.GroupVersion.WithKind("PolicyCandidate"), Resource: "policycandidates", Recent: true, Namespaced: true, NeedsProof: true, Candidate: true},
		func(p *usherv1alpha1.PolicyCandidate) any { return &p.Spec }),
	row(Kind{GroupVersionKind: usherv1alpha1.GroupVersion.WithKind("PolicyExemption"), Resource: "policyexemptions", Recent: true, Namespaced: true, NeedsProof: true, Exempts: true},
		func(p *usherv1alpha1.PolicyExemption) any { return &p.Spec }),
}, foreign("MutatingAdmissionPolicy", [3]int{36, 34, 32}, Kind{Resource: "mutatingadmissionpolicies", Exemptible: true},
	func(p *admissionv1.MutatingAdmissionPolicy) any { return &p.Spec },
), foreign("MutatingAdmissionPolicyBinding", [3]int{36, 34, 32}, Kind{Resource: "mutatingadmissionpolicybindings"},
	func(p *admissionv1.MutatingAdmissionPolicyBinding) any { return &p.Spec },
), foreign("ValidatingAdmissionPolicy", [3]int{30, 0, 0}, Kind{Resource: "validatingadmissionpolicies", Exemptible: true, Validations: "spec.validations"},
	func(p *admissionv1.ValidatingAdmissionPolicy) any { return &p.Spec },
), foreign("ValidatingAdmissionPolicyBinding", [3]int{30, 0, 0}, Kind{Resource: "validatingadmissionpolicybindings"},
	func(p *admissionv1.ValidatingAdmissionPolicyBinding) any { return &p.Spec },
))

// foreign returns the rows of a kind of admissionregistration.k8s.io, whose versions all have the same
// fields: the newest first, as since.
func foreign[T any, P interface {
	*T
	Object
}](name string, since [3]int, k Kind, spec func(P) any) []Kind {
	var rows []Kind
	for i, version := range []string{"v1", "v1beta1", "v1alpha1"} {
		k.GroupVersionKind = schema.GroupVersionKind{Group: admissionv1.GroupName, Version: version, Kind: name}
		k.Foreign, k.Since = true, since[i]
		rows = append(rows, row(k, spec))
	}
	return rows
}

// row completes a kind whose policies are of the Go type T; spec returns a pointer to the spec.
func row[T any, P interface {
	*T
	Object
}](k Kind, spec func(P) any) Kind {
	k.New = func() Object { return P(new(T)) }
	k.object = reflect.TypeFor[P]()
	k.spec = func(object Object) any { return spec(object.(P)) }
	return k
}

// Kinds returns every kind of policy that Usher has of its own, sorted by group, version and name.
func Kinds() []Kind {
	own := slices.DeleteFunc(slices.Clone(kinds), func(k Kind) bool { return k.Foreign })
	return slices.SortedFunc(slices.Values(own), func(a, b Kind) int {
		return cmp.Compare(a.String(), b.String())
	})
}

// ExemptibleKinds returns the names of the kinds from whose policies requests can be exempt, sorted.
func ExemptibleKinds() []string {
	var names []string
	for i := range kinds {
		if kinds[i].Exemptible {
			names = append(names, kinds[i].Kind)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// ForeignKinds returns the kinds that are not Usher's own, sorted by name, each in all its versions,
// the newest first.
func ForeignKinds() [][]Kind {
	var all [][]Kind
	for _, k := range kinds {
		i := slices.IndexFunc(all, func(versions []Kind) bool { return versions[0].GroupKind() == k.GroupKind() })
		switch {
		case !k.Foreign:
		case i < 0:
			all = append(all, []Kind{k})
		default:
			all[i] = append(all[i], k)
		}
	}
	for _, versions := range all {
		slices.SortFunc(versions, func(a, b Kind) int { return -version.CompareKubeAwareVersionStrings(a.Version, b.Version) })
	}
	slices.SortFunc(all, func(a, b []Kind) int { return cmp.Compare(a[0].Kind, b[0].Kind) })
	return all
}

// KindNamed returns the kind with this name, which may be foreign.
func KindNamed(gvk schema.GroupVersionKind) (Kind, bool) {
	return find(func(k *Kind) bool { return k.GroupVersionKind == gvk })
}

// KindCalled returns the newest version of the kind with this name, which may be foreign: no two
// kinds of different groups have the same name.
func KindCalled(name string) (Kind, bool) {
	return find(func(k *Kind) bool { return k.Kind == name })
}

// KindServed returns the kind whose policies API servers serve under a resource.
func KindServed(resource schema.GroupResource) (Kind, bool) {
	return find(func(k *Kind) bool {
		return !k.Foreign && k.Group == resource.Group && k.Resource == resource.Resource
	})
}

// KindOf returns the kind of an object, by its Go type: typed clients omit the kind in the object.
// For a foreign kind, the version is v1.
func KindOf(object Object) (Kind, bool) {
	t := reflect.TypeOf(object)
	return find(func(k *Kind) bool { return k.object == t })
}

func find(is func(*Kind) bool) (Kind, bool) {
	for i := range kinds {
		if is(&kinds[i]) {
			return kinds[i], true
		}
	}
	return Kind{}, false
}

// IsPolicy reports whether objects of this kind are policies of a kind of Usher's own.
func IsPolicy(kind schema.GroupVersionKind) bool {
	k, ok := KindNamed(kind)
	return ok && !k.Foreign
}

// IsGroup reports whether the kinds of an API group are policies of Usher's own.
func IsGroup(group string) bool {
	_, ok := find(func(k *Kind) bool { return !k.Foreign && k.Group == group })
	return ok
}

// Spec returns a pointer to the spec of a policy. It is nil if the object is not of one of the
// [Kinds].
func Spec(object Object) any {
	k, ok := KindOf(object)
	if !ok {
		return nil
	}
	return k.spec(object)
}
