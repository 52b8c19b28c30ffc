package served

import (
	"strings"

	usherv1alpha1 "github.com/usher-dev/usher/api/usher/v1alpha1"
)

// Subject says whom a subject of a policy names.
func Subject(s *usherv1alpha1.Subject) string {
	var all []string
	for _, x := range []struct {
		what  string
		names []string
	}{{"users", s.Users}, {"groups", s.Groups}, {"service accounts", s.ServiceAccounts}} {
		if len(x.names) > 0 {
			all = append(all, x.what+" "+strings.Join(x.names, ", "))
		}
	}
	return strings.Join(all, "; ")
}
