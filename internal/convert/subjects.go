package convert

import (
	"fmt"
	"slices"
	"strings"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/api/usher/v1alpha1"
)

// Expressions for the user of a request. API servers omit fields of the user that are empty.
const (
	username = "request.userInfo.?username.orValue('')"
	groups   = "request.userInfo.?groups.orValue([])"
)

// anyOf returns a CEL expression that is true for the users of subjects, as in authorization
// policies.
func anyOf(subjects []v1alpha1.Subject) string {
	var terms []string
	for i := range subjects {
		s := &subjects[i]
		if len(s.Users) > 0 {
			terms = append(terms, matches(username, s.Users))
		}
		if len(s.Groups) > 0 {
			terms = append(terms, fmt.Sprintf("%s.exists(g, %s)", groups, matches("g", s.Groups)))
		}
		if len(s.ServiceAccounts) > 0 {
			terms = append(terms, accounts(s.ServiceAccounts))
		}
	}
	return strings.Join(terms, " || ")
}

// matches returns an expression that is true if a text equals one of the patterns.
func matches(text string, patterns []string) string {
	var exact, terms []string
	for _, p := range patterns {
		if strings.Contains(p, "*") {
			terms = append(terms, matchesPattern(text, p))
		} else {
			exact = append(exact, Quote(p))
		}
	}
	if len(exact) > 0 {
		terms = append(terms, fmt.Sprintf("%s in [%s]", text, strings.Join(exact, ", ")))
	}
	return strings.Join(terms, " || ")
}

// matchesPattern returns an expression that is true if a text matches a pattern with one *.
func matchesPattern(text, pattern string) string {
	prefix, suffix, _ := strings.Cut(pattern, "*")
	switch {
	case prefix == "" && suffix == "":
		return "true"
	case suffix == "":
		return fmt.Sprintf("%s.startsWith(%s)", text, Quote(prefix))
	case prefix == "":
		return fmt.Sprintf("%s.endsWith(%s)", text, Quote(suffix))
	}
	// Beginning and end must not overlap.
	return fmt.Sprintf("(%s.startsWith(%s) && %s.endsWith(%s) && %s.size() >= %d)", text, Quote(prefix), text, Quote(suffix), text, len([]rune(prefix+suffix)))
}

// accounts returns an expression that is true for service accounts, which are NAMESPACE/NAME.
func accounts(patterns []string) string {
	var exact, others []string
	for _, p := range patterns {
		namespace, name, _ := strings.Cut(p, "/")
		if strings.Contains(p, "*") {
			others = append(others, fmt.Sprintf("(%s) && (%s)", matches("p[2]", []string{namespace}), matches("p[3]", []string{name})))
		} else {
			exact = append(exact, "system:serviceaccount:"+namespace+":"+name)
		}
	}
	var terms []string
	if len(exact) > 0 {
		terms = append(terms, matches(username, exact))
	}
	if len(others) > 0 {
		terms = append(terms, fmt.Sprintf("[%s.split(':')].exists(p, p.size() == 4 && p[0] == 'system' && p[1] == 'serviceaccount' && p[2] != '' && p[3] != '' && (%s))",
			username, strings.Join(others, " || ")))
	}
	return strings.Join(terms, " || ")
}

// Quote returns a CEL string.
func Quote(text string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`, "\n", `\n`, "\r", `\r`).Replace(text) + "'"
}

// addUsers adds users that the subjects of a policy name, and users that nearly are.
func (w *world) addUsers(o api.Object) {
	policy, ok := o.(*v1alpha1.ClusterObjectPolicy)
	if !ok {
		return
	}
	add := func(user usher.User) {
		if !slices.ContainsFunc(w.users, func(u usher.User) bool { return u.Name == user.Name && slices.Equal(u.Groups, user.Groups) }) {
			w.users = append(w.users, user)
		}
	}
	for _, s := range slices.Concat(policy.Spec.Subjects, policy.Spec.ExcludeSubjects) {
		for _, name := range s.Users {
			add(usher.User{Name: strings.Replace(name, "*", "x", 1)})
			add(usher.User{Name: strings.Replace(name, "*", "", 1) + "-"})
		}
		for _, name := range s.Groups {
			add(usher.User{Name: "joe", Groups: []string{"devs", strings.Replace(name, "*", "x", 1)}})
		}
		for _, account := range s.ServiceAccounts {
			name := strings.Replace(strings.ReplaceAll(account, "*", "x"), "/", ":", 1)
			add(usher.User{Name: "system:serviceaccount:" + name})
			add(usher.User{Name: "system:serviceaccount:" + name + ":x"})
		}
	}
}
