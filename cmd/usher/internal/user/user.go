// Package user has the flags for the user of a request.
package user

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	usher "github.com/usher-dev/usher"
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
