package user_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/cmd/usher/internal/user"
)

func TestUser(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		reason string
		args   []string
		want   usher.User
		err    string
	}{
		{reason: "without flags nobody asks"},
		{
			reason: "everybody who is known is authenticated",
			args:   []string{"--as", "jane", "--as-group", "dev"},
			want:   usher.User{Name: "jane", Groups: []string{"dev", "system:authenticated"}},
		},
		{
			reason: "a group of an unnamed user", args: []string{"--as-group", "dev"},
			want: usher.User{Groups: []string{"dev", "system:authenticated"}},
		},
		{
			reason: "service accounts have groups of their own",
			args:   []string{"--as", "system:serviceaccount:ci:builder"},
			want:   usher.User{Name: "system:serviceaccount:ci:builder", Groups: []string{"system:serviceaccounts", "system:serviceaccounts:ci", "system:authenticated"}},
		},
		{
			reason: "the anonymous user is not authenticated", args: []string{"--as", "system:anonymous"},
			want: usher.User{Name: "system:anonymous", Groups: []string{"system:unauthenticated"}},
		},
		{
			reason: "extra attributes have several values", args: []string{"--as", "jane", "--as-uid", "1", "--as-extra", "scope=a", "--as-extra", "scope=b=c"},
			want: usher.User{Name: "jane", UID: "1", Groups: []string{"system:authenticated"}, Extra: map[string][]string{"scope": {"a", "b=c"}}},
		},
		{reason: "an extra attribute needs a key", args: []string{"--as-extra", "=a"}, err: "--as-extra =a: expected KEY=VALUE"},
	} {
		var f user.Flags
		flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
		f.Register(flags)
		if err := flags.Parse(tt.args); err != nil {
			t.Fatal(err)
		}
		got, err := f.User()
		if err != nil {
			if err.Error() != tt.err {
				t.Errorf("%s: error %q, expected %q", tt.reason, err, tt.err)
			}
			continue
		}
		if diff := cmp.Diff(tt.want, got); diff != "" || tt.err != "" {
			t.Errorf("%s: expected error %q, -want +got:\n%s", tt.reason, tt.err, diff)
		}
	}
}
