package enforce_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/enforce"
)

func TestAuditFlags(t *testing.T) {
	t.Parallel()
	const kubeconfig, url = "--kubeconfig=testdata/kubeconfig.yaml", "--webhook-url=https://192.0.2.7:8443"
	for _, test := range []struct {
		reason string
		args   []string
		want   string
	}{
		{"without a cluster there are no objects", []string{"--policies=.", "--audit"}, "--audit needs a cluster, whose objects it judges: name it with --kubeconfig or --in-cluster"},
		{"a flag that has no effect", []string{"--policies=.", "--audit-cpu=1"}, "--audit-cpu needs --audit"},
		{"Secrets without an audit", []string{"--policies=.", "--audit-secrets"}, "--audit-secrets needs --audit"},
		{"no quantity", []string{kubeconfig, url, "--audit", "--audit-memory=much"}, "--audit-memory much: expected a quantity such as 64Mi"},
		{"too little memory", []string{kubeconfig, url, "--audit", "--audit-memory=1Mi"}, "--audit-memory 1Mi: must be at least 8Mi"},
		{"no processor", []string{kubeconfig, url, "--audit", "--audit-cpu=0"}, "--audit-cpu 0: must be between 0.01 and 64"},
		{"no number", []string{kubeconfig, url, "--audit", "--audit-cpu=NaN"}, "--audit-cpu NaN: must be between 0.01 and 64"},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			cmd := enforce.Serve(cli.Streams{In: strings.NewReader(""), Out: &out, Err: &out})
			cmd.SetArgs(test.args)
			cmd.SetOut(&out)
			cmd.SetErr(&out)
			if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}
