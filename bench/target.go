package main

import "fmt"

// A target is a server and the requests to it.
type target struct {
	name string
	// reference is floor or ordinary for those; the others are Usher with policies.
	reference string
	policies  string
	// count is how many policies there are.
	count int
	// paths are called in turn.
	paths []string
	want  string
	// limit is the most CPU that a request may take, in those of the ordinary webhook; 0
	// if nothing is promised.
	limit float64
	// hostile means that some policies do not compile.
	hostile bool
}

// The references that the others are compared with.
const (
	floor    = "floor"
	ordinary = "ordinary"
)

func references() []target {
	return []target{
		{name: floor, reference: floor, paths: []string{"/validate"}, want: "allowed"},
		{name: ordinary, reference: ordinary, paths: []string{"/validate"}, want: "allowed"},
	}
}

// allTargets are measured with the review of ordinary size.
func allTargets() ([]target, error) {
	restricted, err := restrictedTarget()
	if err != nil {
		return nil, err
	}
	targets := append(references(), target{name: "no policy", paths: []string{"/validate"}, want: "allowed", limit: 0.35})
	for _, n := range []int{1, 100} {
		for _, l := range languages {
			targets = append(targets, l.target(n))
		}
	}
	for _, n := range []int{1000, 10000} {
		t := target{name: fmt.Sprintf("%d that do not match", n), policies: missing(n), count: n, paths: []string{"/mutate"}, want: "allowed"}
		if n == 10000 {
			t.limit = 0.4
		}
		targets = append(targets, t)
	}
	return append(targets, restricted, pair()), nil
}

// restricted is the pack whose cost is measured.
const restricted = "pod-security-restricted"

// restrictedTarget decides by all policies of a pack.
func restrictedTarget() (target, error) {
	policies, count, err := packPolicies(restricted)
	return target{name: restricted, policies: policies, count: count, paths: []string{"/validate"}, want: "allowed", limit: 1.2}, err
}

// largeTargets are measured with larger reviews.
func largeTargets() []target {
	targets := append(references(), target{name: "no policy", paths: []string{"/validate"}, want: "allowed"})
	for _, l := range languages {
		t := l.target(1)
		t.limit = 0
		targets = append(targets, t)
	}
	return append(targets, pair())
}

// limits are the promises, for 1 and 100 policies.
var limits = map[string][2]float64{
	"plaintext":                       {0.7, 2.5},
	"template":                        {0.7, 2.5},
	"cue":                             {0.8, 2.5},
	"cue outside the subset":          {2, 0},
	"validate template":               {0.6, 2},
	"validate cue":                    {0.6, 2},
	"validate cue outside the subset": {2, 0},
	"ValidatingAdmissionPolicy":       {0.6, 2},
	"ClusterObjectPolicy":             {0.6, 2},
	"MutatingAdmissionPolicy":         {0.8, 3},
	"apply configuration":             {1, 5},
}

func (l language) target(n int) target {
	t := target{
		name: fmt.Sprintf("%d %s", n, l.name), policies: l.policies(n), count: n,
		paths: []string{"/mutate"}, want: "changed", limit: limits[l.name][0],
	}
	if l.validates() {
		t.paths, t.want = []string{"/validate"}, "allowed"
	}
	if n > 1 {
		t.limit = limits[l.name][1]
	}
	return t
}

// pair is one pod with a mutating and a validating policy: two requests.
func pair() target {
	var mutating, validating language
	for _, l := range languages {
		switch l.name {
		case "template":
			mutating = l
		case "validate template":
			validating = l
		}
	}
	return target{
		name: "a mutation and a validation, each", policies: mutating.policies(1) + validating.policies(1),
		paths: []string{"/mutate", "/validate"}, want: "allowed, changed",
	}
}
