// Package user has the flags for the user of a request, and asks clusters who the caller is.
package user

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/printable"
)

// Flags are the flags for a user.
type Flags struct {
	Name, UID string
	Groups    []string
	Extra     []string
}

// Register adds the flags.
func (f *Flags) Register(flags *pflag.FlagSet) {
	flags.StringVar(&f.Name, "as", "", "user who makes the request; system:serviceaccount:NAMESPACE:NAME is a service account, with its groups")
	flags.StringArrayVar(&f.Groups, "as-group", nil, "group of the user (repeatable); system:authenticated is always one")
	flags.StringVar(&f.UID, "as-uid", "", "UID of the user")
	flags.StringArrayVar(&f.Extra, "as-extra", nil, "extra attribute of the user, as KEY=VALUE (repeatable)")
}

// Given reports whether the flags name a user or a group.
func (f *Flags) Given() bool { return f.Name != "" || len(f.Groups) > 0 }

// LacksGroups reports whether the flags name a user and no group, and the name does not tell the groups, as that of a
// service account does.
func (f *Flags) LacksGroups() bool {
	return f.Name != "" && len(f.Groups) == 0 && !strings.HasPrefix(f.Name, "system:serviceaccount:")
}

// User returns the user, with the groups that API servers add. If no flag is set, that is the zero
// User.
func (f *Flags) User() (usher.User, error) {
	u := usher.User{Name: f.Name, UID: f.UID, Groups: slices.Clone(f.Groups)}
	for _, pair := range f.Extra {
		key, value, ok := strings.Cut(pair, "=")
		if !ok || key == "" {
			return u, fmt.Errorf("--as-extra %s: expected KEY=VALUE", pair)
		}
		if u.Extra == nil {
			u.Extra = map[string][]string{}
		}
		u.Extra[key] = append(u.Extra[key], value)
	}
	if !f.Given() && u.UID == "" && u.Extra == nil {
		return usher.User{}, nil
	}
	return Complete(u), nil
}

// Complete returns the user with the groups that API servers add.
func Complete(u usher.User) usher.User {
	add := func(groups ...string) {
		for _, group := range groups {
			if !slices.Contains(u.Groups, group) {
				u.Groups = append(u.Groups, group)
			}
		}
	}
	if account, ok := strings.CutPrefix(u.Name, "system:serviceaccount:"); ok {
		if namespace, _, ok := strings.Cut(account, ":"); ok {
			add("system:serviceaccounts", "system:serviceaccounts:"+namespace)
		}
	}
	if u.Name == "system:anonymous" {
		add("system:unauthenticated")
	} else {
		add("system:authenticated")
	}
	return u
}

// Self returns the user as which a cluster authenticates the caller.
func Self(ctx context.Context, kube kubernetes.Interface) (usher.User, error) {
	review, err := kube.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return usher.User{}, fmt.Errorf("ask who you are: %w", err)
	}
	known := review.Status.UserInfo
	u := usher.User{Name: known.Username, UID: known.UID, Groups: known.Groups}
	for key, values := range known.Extra {
		if u.Extra == nil {
			u.Extra = map[string][]string{}
		}
		u.Extra[key] = values
	}
	return u, nil
}

// IsNobody reports whether nothing names a user.
func IsNobody(u usher.User) bool { return u.Name == "" && len(u.Groups) == 0 }

// Describe describes a user in one line.
func Describe(u usher.User) string {
	return printable.Line(cmp.Or(u.Name, "somebody") + " (" + strings.Join(u.Groups, ", ") + ")")
}
