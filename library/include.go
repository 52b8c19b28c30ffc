package library

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// An Inclusion names policies of another pack. The pack that includes them has them under its own
// name, so that both packs can be installed with settings of their own.
type Inclusion struct {
	Pack string `json:"pack"`
	// Policies are the names of their files, without .yaml.
	Policies []string `json:"policies"`
	// Category replaces that of the policies, unless it is empty.
	Category string `json:"category,omitempty"`
}

// Join adds to packs the policies that they include from each other, in front of their own. It
// returns an error for names that clash: in a cluster, one policy would replace the other, and
// commands take the names of packs and of policies.
func Join(packs []Pack) ([]Pack, error) {
	var errs []error
	byName := map[string]*Pack{}
	for i := range packs {
		if byName[packs[i].Name] != nil {
			errs = append(errs, fmt.Errorf("pack %s exists twice: rename one of them", packs[i].Name))
			continue
		}
		byName[packs[i].Name] = &packs[i]
	}
	joined := slices.Clone(packs)
	for i := range joined {
		included, err := joined[i].included(byName)
		if err != nil {
			errs = append(errs, fmt.Errorf("pack %s: include: %w", joined[i].Name, err))
		}
		joined[i].Policies, joined[i].Include = append(included, joined[i].Policies...), nil
	}
	errs = append(errs, distinct(joined)...)
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return joined, nil
}

// distinct returns an error for each policy that has the name of a pack or of another policy.
func distinct(packs []Pack) []error {
	var errs []error
	policies := map[string]string{}
	for i := range packs {
		for k := range packs[i].Policies {
			name := packs[i].Policies[k].Name
			if other, ok := policies[name]; ok {
				errs = append(errs, fmt.Errorf("policy %s is in pack %s and in pack %s: rename one of them", name, other, packs[i].Name))
			}
			policies[name] = packs[i].Name
		}
	}
	for i := range packs {
		if pack, ok := policies[packs[i].Name]; ok {
			errs = append(errs, fmt.Errorf("policy %s of pack %s has the name of a pack: rename one of them", packs[i].Name, pack))
		}
	}
	return errs
}

// included returns the policies that the pack includes.
func (p *Pack) included(packs map[string]*Pack) ([]Policy, error) {
	var all []Policy
	var errs []error
	known := slices.Sorted(maps.Keys(packs))
	for _, inclusion := range p.Include {
		from, ok := packs[inclusion.Pack]
		switch {
		case !ok:
			errs = append(errs, fmt.Errorf("no pack %s: %s", inclusion.Pack, suggestion(inclusion.Pack, known, "there are "+strings.Join(known, ", "))))
			continue
		case from.Name == p.Name:
			errs = append(errs, errors.New("a pack cannot include itself"))
			continue
		case len(inclusion.Policies) == 0:
			errs = append(errs, fmt.Errorf("pack %s: policies is empty: list the names of the files, without .yaml", from.Name))
		}
		for _, file := range inclusion.Policies {
			policy, err := from.as(p, file, inclusion.Category)
			if err == nil && (p.has(file) || slices.ContainsFunc(all, func(other Policy) bool { return other.File == file })) {
				err = fmt.Errorf("%s of pack %s is in the pack twice", file, from.Name)
			}
			errs = append(errs, err)
			all = append(all, policy)
		}
	}
	return all, errors.Join(errs...)
}

func (p *Pack) has(file string) bool {
	return slices.ContainsFunc(p.Policies, func(policy Policy) bool { return policy.File == file && policy.Origin == p.Name })
}

// as returns a policy of the pack as another pack has it.
func (p *Pack) as(other *Pack, file, category string) (Policy, error) {
	var files []string
	for i := range p.Policies {
		policy := p.Policies[i]
		if policy.Origin != p.Name {
			continue
		}
		if policy.File != file {
			files = append(files, policy.File)
			continue
		}
		name := other.Name + "-" + file
		policy.Cases = rename(policy.Cases, policy.Name, name)
		policy.Name, policy.Pack, policy.Version = name, other.Name, other.Version
		if category != "" {
			policy.Spec.Category = category
		}
		return policy, nil
	}
	return Policy{}, fmt.Errorf("pack %s has no file %s.yaml: %s", p.Name, file, suggestion(file, files, "there are "+strings.Join(files, ", ")))
}

// rename replaces the name of a policy where its cases refer to it: in messages and in exemptions.
func rename(cases []byte, old, name string) []byte {
	reference := regexp.MustCompile(`(ClusterObjectPolicy(?:,\s+name:)?\s+)` + regexp.QuoteMeta(old) + `($|[^-a-z0-9])`)
	return reference.ReplaceAll(cases, []byte("${1}"+name+"${2}"))
}
