package replica_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/usher-dev/usher/cmd/usher/internal/replica"
)

// TestWithoutRights: who may not connect to pods is told which role has the rights.
func TestWithoutRights(t *testing.T) {
	t.Parallel()
	for _, denied := range []string{"/pods", "/portforward"} {
		c := newCluster(t)
		c.user, c.denied = "system:serviceaccount:ci:robot", denied
		c.add("usher-a", true, nil)
		flags := replica.Flags{Kubeconfig: c.kubeconfig("token: for-the-api-server"), Namespace: "usher-system"}
		set, err := flags.Connect(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		all, err := set.Find(t.Context())
		if err == nil {
			_, err = ask(t, all[0], replica.Path("shop", "decisions"))
		}
		const told = "kubectl create rolebinding NAME --role usher-connect --user YOU -n usher-system"
		if err == nil || !strings.Contains(err.Error(), "is forbidden") || !strings.Contains(err.Error(), told) {
			t.Errorf("%s: got %v, want %q", denied, err, told)
		}
	}
}

// TestNoToken: what keeps a user from a token is said, and nothing of replicas, which have not been asked.
func TestNoToken(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ account, denied, want string }{
		{"team-a/anne", "", "there is no ServiceAccount team-a/anne"},
		{"team-a/ann", "/token", "is forbidden: User \"ann\" has no right; you need the verb create on serviceaccounts/token in namespace team-a"},
	} {
		c := newCluster(t)
		c.denied = row.denied
		c.add("usher-a", true, nil)
		flags := replica.Flags{Kubeconfig: c.kubeconfig("token: for-the-api-server"), ServiceAccount: row.account, Namespace: "usher-system"}
		set, err := flags.Connect(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		all, err := set.Find(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_, err = ask(t, all[0], replica.Path("shop", "decisions"))
		if _, ok := errors.AsType[*replica.NoToken](err); !ok || !strings.HasSuffix(err.Error(), row.want) {
			t.Errorf("%s: got %v, want %q", row.account, err, row.want)
		}
		if hint := replica.Hint(err, "watch", "decisions", "shop"); hint != "" {
			t.Errorf("%s: the hint is %q, want none", row.account, hint)
		}
	}
}
