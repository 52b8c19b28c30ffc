package gatekeeper

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/usher-dev/usher/internal/convert"
	"github.com/usher-dev/usher/library"
)

// A counterpart is a policy of the library that decides as templates in Rego do, with params for the parameters of a
// constraint.
type counterpart struct {
	policy string
	// group and kinds are those that it is for; any if there are none.
	group string
	kinds []string
	// params returns the params, or an error about a parameter.
	params func(parameters map[string]any) (map[string]any, error)
}

// known returns the counterpart of a template by the hash of its Rego; nil if there is none. Names prove nothing: copies
// of a template that were changed keep them. The hashes are those of all versions in Gatekeeper's library that have
// the meaning.
func known(hash string) *counterpart {
	const network, rbac = "", "rbac.authorization.k8s.io"
	services, roles := []string{"Service"}, []string{"ClusterRoleBinding", "RoleBinding"}
	switch hash {
	case "c5819a87201f658b6341fb59b956c95fc8c6855c8cceacea2a58fcc13f105f34", "1d32dfbf35b36090c1407a066725ce8a9159909ee839354c10a5802d67590b38":
		return &counterpart{"service-types", network, services, types("ClusterIP", "LoadBalancer", "ExternalName")}
	case "0e140790de48199246aa4da4082564ce7f6de3da2baf8ba4101ba7ad771c0a44", "ca5b94e370b37ebb0140e87ec9bdf8b3d9dbf789b63191362cd727f7d2c72cbb":
		return &counterpart{"service-types", network, services, types("ClusterIP", "NodePort", "ExternalName")}
	case "f5daf58ae8eb87a14a9127f160cdd1d045660f1dde89517fb4af0536e0780b9a", "4e5c42f15f16846d2a7b5d69fe239affb04016a8bfa877c2887c2df1ca37021f":
		return &counterpart{"external-ips", network, services, addresses}
	case "5f00b16ebb4a860c909b8987aa0050bdb0a850277c726a6a71ee9144690302d5", "37a2dca4255ad489fc2d6a80e938875c9d6efceb30ec7f3533bd670bed57d3f1":
		return &counterpart{"anonymous-bindings", rbac, roles, func(p map[string]any) (map[string]any, error) {
			return everybody(p, p["disallowAuthenticated"] == true)
		}}
	case "800e0369c0ca808353ba1d426945f076e20cea77db111f31bf00d139d457fdd5", "988960c43323bb092bc98f6b6e2afc5ff8b869f888b7e4fdc0c2fe63ddc35177":
		return &counterpart{"anonymous-bindings", rbac, roles, func(p map[string]any) (map[string]any, error) { return everybody(p, false) }}
	case "413e9e98e53d00eff1ac7d2ba885a286685c76061fdcb2751549778d917c6bc5", "2f76abd9e7329f453e728ef2876d026ad735033eee698954d6b39798825be6bd",
		"c29b7958ce657591ee3f26c0fe2af9cff82255f024b5606270e98feba8995dc8", "d53d4bbca39dce971a65507fe02e980ba97e28a2bcd14bb621d0d0711499a8fa":
		return &counterpart{"required-annotations", "", nil, annotations}
	}
	return nil
}

// adopt takes what a policy of the library says in place of a template in Rego.
func (t *template) adopt(i *convert.Import, k *counterpart) {
	packs, err := library.Packs()
	if err != nil {
		i.Leave(i.Of, "spec.targets", err.Error(), "write it as a ClusterObjectPolicy")
		return
	}
	for _, pack := range packs {
		for _, p := range pack.Policies {
			if p.Name != k.policy {
				continue
			}
			t.source = source{Variables: slices.Clone(p.Spec.Variables), MatchConditions: slices.Clone(p.Spec.MatchConditions)}
			for _, v := range p.Spec.Validations {
				t.source.Validations = append(t.source.Validations, validation{Expression: v.Expression, Message: v.Message, MessageExpression: v.MessageExpression})
			}
			t.adopted, t.reads = k, true
			i.Note(i.Of, "spec.targets", "its Rego is known: it becomes the policy "+k.policy+" of the library, which decides the same, with messages of its own", "")
			return
		}
	}
	i.Leave(i.Of, "spec.targets", "the library has no policy "+k.policy, "write it as a ClusterObjectPolicy")
}

// suits leaves a constraint that is for other kinds than the policy that its template becomes.
func (k *counterpart) suits(i *convert.Import, f *convert.Foreign, m *match) {
	if len(k.kinds) == 0 {
		return
	}
	others := slices.ContainsFunc(m.Kinds, func(of kinds) bool {
		return !slices.Equal(of.APIGroups, []string{k.group}) || len(of.Kinds) == 0 || slices.ContainsFunc(of.Kinds, func(name string) bool { return !slices.Contains(k.kinds, name) })
	})
	if others || len(m.Kinds) == 0 {
		i.Leave(f, "spec.match.kinds", "it is for other kinds than "+strings.Join(k.kinds, " and ")+", too", "name these alone")
	}
}

// types returns the types of services that stay allowed.
func types(allowed ...any) func(map[string]any) (map[string]any, error) {
	return func(map[string]any) (map[string]any, error) { return map[string]any{"types": allowed}, nil }
}

// texts returns a parameter that is a list of texts.
func texts(parameters map[string]any, name string) ([]string, error) {
	list, ok := parameters[name].([]any)
	if !ok && parameters[name] != nil {
		return nil, fmt.Errorf("%s is no list", name)
	}
	var all []string
	for _, each := range list {
		text, ok := each.(string)
		if !ok {
			return nil, fmt.Errorf("%s has something that is no text", name)
		}
		all = append(all, text)
	}
	return all, nil
}

// addresses returns blocks of one address each. Of IPv6 an address has several texts, which Rego compares.
func addresses(parameters map[string]any) (map[string]any, error) {
	allowed, err := texts(parameters, "allowedIPs")
	if err != nil {
		return nil, err
	}
	blocks := []any{}
	for _, text := range allowed {
		if address, err := netip.ParseAddr(text); err != nil || !address.Is4() {
			return nil, fmt.Errorf("allowedIPs has %q, which is no address of IPv4", text)
		}
		blocks = append(blocks, text+"/32")
	}
	return map[string]any{"cidrs": blocks}, nil
}

// everybody returns the subjects that nothing may be bound to.
func everybody(parameters map[string]any, authenticated bool) (map[string]any, error) {
	if allowed, err := texts(parameters, "allowedRoles"); err != nil || len(allowed) > 0 {
		return nil, errors.Join(err, errors.New("allowedRoles has roles that may be bound: the policy has no such param"))
	}
	subjects := []any{"system:unauthenticated", "system:anonymous"}
	if authenticated {
		subjects = append(subjects, "system:authenticated")
	}
	return map[string]any{"subjects": subjects}, nil
}

// annotations returns patterns by annotation. To the policy an annotation that is absent is empty, which no pattern
// may fit then.
func annotations(parameters map[string]any) (map[string]any, error) {
	list, _ := parameters["annotations"].([]any)
	patterns := map[string]any{}
	for _, each := range list {
		of, _ := each.(map[string]any)
		key, _ := of["key"].(string)
		text, _ := of["allowedRegex"].(string)
		pattern, err := regexp.Compile(text)
		switch {
		case key == "":
			return nil, errors.New("annotations has one without a key")
		case err != nil:
			return nil, fmt.Errorf("allowedRegex of %s: %w", key, err)
		case pattern.MatchString(""):
			return nil, fmt.Errorf("allowedRegex of %s fits an empty text, which is that of an annotation that is absent, too", key)
		case patterns[key] != nil:
			return nil, fmt.Errorf("annotations has %s twice", key)
		}
		patterns[key] = text
	}
	if len(patterns) == 0 {
		return nil, errors.New("annotations has none")
	}
	return map[string]any{"annotations": patterns}, nil
}
