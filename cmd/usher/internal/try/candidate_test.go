//go:build unix

package try_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/served"
	"github.com/usher-dev/usher/internal/observe/recent"
)

// TestLineOfCandidate runs the line that 'usher watch --candidates --explain' prints for an object that a candidate
// would deny, as it is: what it prints exempts the object.
func TestLineOfCandidate(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"sh", "kubectl", "jq"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed", tool)
		}
	}
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	if err := os.Symlink(binary, filepath.Join(bin, "usher")); err != nil {
		t.Fatal(err)
	}
	const group = "/apis/usher.dev/v1alpha1"
	for _, row := range []struct{ kind, resource, namespace, embeds, exemption string }{
		{"PolicyCandidate", "policycandidates", "shop", "ObjectPolicy", "kind: PolicyExemption"},
		{"ClusterPolicyCandidate", "clusterpolicycandidates", "", "ClusterObjectPolicy", "kind: ClusterPolicyExemption"},
	} {
		t.Run(row.kind, func(t *testing.T) {
			t.Parallel()
			metadata, at := `"name":%q`, group+"/"+row.resource+"/owned"
			if row.namespace != "" {
				metadata, at = metadata+`,"namespace":"shop"`, group+"/namespaces/shop/"+row.resource+"/owned"
			}
			policy := fmt.Sprintf(`{"apiVersion":"usher.dev/v1alpha1","kind":%q,"metadata":{`+metadata+`},"spec":{
"matchConstraints":{"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE"],"resources":["pods"]}]},
"validations":[{"expression":"object.spec.restartPolicy == 'Always'","message":"restart"}]}}`, row.embeds, "restarts")
			known := shop()
			known["/apis"] = `{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":"usher.dev","versions":[{"groupVersion":"usher.dev/v1alpha1","version":"v1alpha1"}],"preferredVersion":{"groupVersion":"usher.dev/v1alpha1","version":"v1alpha1"}}]}`
			known[group] = fmt.Sprintf(`{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"usher.dev/v1alpha1","resources":[{"name":%q,"singularName":%q,"namespaced":%t,"kind":%q,"verbs":["get","list"]}]}`,
				row.resource, strings.ToLower(row.kind), row.namespace != "", row.kind)
			known[at] = fmt.Sprintf(`{"apiVersion":"usher.dev/v1alpha1","kind":%q,"metadata":{`+metadata+`},"spec":{"policies":[%s]}}`, row.kind, "owned", policy)
			config := kubeconfig(t, known)

			line := served.ExemptLine(&recent.Decision{
				Request: recent.Request{Phase: string(usher.Validate), Operation: string(usher.Create), Kind: "Pod", Namespace: "shop", Name: "stored"}, Verdict: string(usher.Deny),
				Candidate: &usher.PolicyRef{Kind: row.kind, Namespace: row.namespace, Name: "owned"}, Differences: []string{"denied"},
			})
			command := exec.CommandContext(t.Context(), "sh", "-c", line)
			command.Env = append(os.Environ(), "HOME="+t.TempDir(), "KUBECONFIG="+config, "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
			var failures strings.Builder
			command.Stderr = &failures
			out, err := command.Output()
			if err != nil || !strings.Contains(string(out), row.exemption) {
				t.Fatalf("%s\n%v: %s\n%s", line, err, failures.String(), out)
			}
			dir := t.TempDir()
			for name, text := range map[string]string{"policy.yaml": policy, "exemption.yaml": string(out)} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			decide := []string{"decide", "pod/stored", "-n", "shop", "--from-cluster", "--kubeconfig", config, "-p", filepath.Join(dir, "policy.yaml")}
			if stderr, status := execute(t, decide); status != cli.ExitNegative {
				t.Errorf("without the exemption: status %d: %s", status, stderr)
			}
			if stderr, status := execute(t, append(decide, "-p", filepath.Join(dir, "exemption.yaml"))); status != cli.ExitOK {
				t.Errorf("with the exemption: status %d: %s\n%s", status, stderr, out)
			}
		})
	}
}
