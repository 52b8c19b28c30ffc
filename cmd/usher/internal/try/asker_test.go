package try_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/usher-dev/usher/cmd/internal/cli"
)

// selfReview is where an API server says who the caller is, and jane is an answer.
const (
	selfReview = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
	jane       = `{"kind":"SelfSubjectReview","apiVersion":"authentication.k8s.io/v1","status":{"userInfo":{"username":"jane","groups":["devs","system:authenticated"]}}}`
)

// TestWhoAsks: with a cluster, requests are those of the user of the kubeconfig unless another one is named, and users are
// told if they are nobody's and a policy reads who makes them.
func TestWhoAsks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	policy := func(spec, expression string) string {
		return `{apiVersion: usher.dev/v1alpha1, kind: ClusterObjectPolicy, metadata: {name: who}, spec: {` + spec +
			`matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}, ` +
			`validations: [{expression: "` + expression + `", message: refused}]}}`
	}
	const pod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"shop"},"spec":{"containers":[]}}`
	for name, text := range map[string]string{
		"reads.yaml":    policy("", "request.userInfo.?username.orValue('') != 'jane'"),
		"for.yaml":      policy("subjects: [{groups: [devs]}], ", "false"),
		"excludes.yaml": policy("excludeSubjects: [{groups: [devs]}], ", "false"),
		"nobody.yaml":   policy("", "object.metadata.name != 'p'"),
		"pod.json":      pod,
		"review.json": `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1","kind":{"version":"v1","kind":"Pod"},"resource":{"version":"v1","resource":"pods"},` +
			`"name":"p","namespace":"shop","operation":"CREATE","userInfo":{"username":"joe"},"object":` + pod + `}}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	refused := shop()
	refused[selfReview] = ""
	const (
		asJane  = "as jane (devs, system:authenticated), the user of the kubeconfig\n"
		note    = "note: decided for nobody: ClusterObjectPolicy who reads the user: name one with --as\n"
		warning = "warning: decided for nobody: ask who you are: "
		groups  = "note: decided without groups of the user: ClusterObjectPolicy who goes by groups: name them with --as-group\n"
	)
	for _, c := range []struct {
		reason, policy, object string
		cluster                map[string]string
		more                   []string
		status                 int
		out, err               string
	}{
		{"the user of the kubeconfig", "reads.yaml", "pod.json", shop(), nil, cli.ExitNegative, asJane, ""},
		{"one of the subjects", "for.yaml", "pod.json", shop(), nil, cli.ExitNegative, asJane, ""},
		{"one who is excluded", "excludes.yaml", "pod.json", shop(), nil, cli.ExitOK, asJane, ""},
		{"an object of the cluster", "reads.yaml", "pod/stored", shop(), []string{"-n", "shop"}, cli.ExitNegative, asJane, ""},
		{"the user that is named", "reads.yaml", "pod.json", shop(), []string{"--as", "joe"}, cli.ExitOK, "", ""},
		{"the user that is recorded", "reads.yaml", "review.json", shop(), nil, cli.ExitOK, "", ""},
		{"the cluster does not tell", "nobody.yaml", "pod.json", refused, nil, cli.ExitNegative, "", warning},
		{"without a cluster", "reads.yaml", "pod.json", nil, nil, cli.ExitOK, "", note},
		{"subjects", "for.yaml", "pod.json", nil, nil, cli.ExitOK, "", note},
		{"nobody is excluded", "excludes.yaml", "pod.json", nil, nil, cli.ExitNegative, "", ""},
		{"nobody reads the user", "nobody.yaml", "pod.json", nil, nil, cli.ExitNegative, "", ""},
		{"subjects, and no groups", "for.yaml", "pod.json", nil, []string{"--as", "jane"}, cli.ExitOK, "", groups},
		{"excluded groups, and no groups", "excludes.yaml", "pod.json", nil, []string{"--as", "jane"}, cli.ExitNegative, "", groups},
		{"one of the groups is named", "for.yaml", "pod.json", nil, []string{"--as", "jane", "--as-group", "devs"}, cli.ExitNegative, "", ""},
		{"a service account has its groups", "for.yaml", "pod.json", nil, []string{"--as", "system:serviceaccount:shop:web"}, cli.ExitOK, "", ""},
		{"somebody is named", "reads.yaml", "pod.json", nil, []string{"--as", "jane"}, cli.ExitNegative, "", ""},
	} {
		for _, command := range []string{"decide", "explain"} {
			args := append([]string{command, "-p", filepath.Join(dir, c.policy)}, c.more...)
			if strings.HasSuffix(c.object, ".json") {
				args = append(args, "-f", filepath.Join(dir, c.object))
			} else {
				args = append(args, c.object)
			}
			if c.cluster != nil {
				args = append(args, "--from-cluster", "--kubeconfig", kubeconfig(t, c.cluster))
			}
			out, stderr, status := executed(t, args)
			if status != c.status || strings.HasPrefix(out, "as ") != (c.out != "") || !strings.HasPrefix(out, c.out) ||
				strings.Contains(stderr, "decided ") != (c.err != "") || !strings.Contains(stderr, c.err) {
				t.Errorf("%s %s: status %d, want %d, %q and %q:\n%s%s", command, c.reason, status, c.status, c.out, c.err, out, stderr)
			}
			out, _, _ = executed(t, append(args, "-o", "json"))
			var report struct{ User *struct{ Name string } }
			if err := json.Unmarshal([]byte(out), &report); err != nil || (report.User != nil) != (c.out != "") || report.User != nil && report.User.Name != "jane" {
				t.Errorf("%s %s: %v, user %v:\n%s", command, c.reason, err, report.User, out)
			}
		}
	}
	// Exemptions are for everybody, and who is refused may be someone else.
	exempt := []string{"exempt", "-f", filepath.Join(dir, "pod.json"), "--from-cluster", "--kubeconfig", kubeconfig(t, shop()), "--reason", "r", "--owner", "o", "-p"}
	out, stderr, status := executed(t, append(exempt, filepath.Join(dir, "for.yaml")))
	if status != cli.ExitOK || strings.Contains(out, "jane") || strings.Contains(out, "devs") {
		t.Errorf("status %d:\n%s%s", status, out, stderr)
	}
	const want = "this is for jane (devs, system:authenticated), the user of the kubeconfig: name who is refused with --as"
	if stderr, status := execute(t, append(exempt, filepath.Join(dir, "excludes.yaml"))); status != cli.ExitNegative || !strings.Contains(stderr, want) {
		t.Errorf("status %d, want %q:\n%s", status, want, stderr)
	}
}
