package observe_test

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/observe"
	"github.com/usher-dev/usher/internal/audit/result"
	"github.com/usher-dev/usher/internal/auditapi"
	"github.com/usher-dev/usher/internal/delegated"
	"github.com/usher-dev/usher/internal/delegated/delegatedtest"
)

// What the API of delegated uses logs on its own.
func TestMain(m *testing.M) {
	klog.SetSlogLogger(slog.New(slog.DiscardHandler))
	os.Exit(m.Run())
}

// results is a reader with failures in the namespaces shop and lab, of which more are counted than
// are listed.
type results struct{ complete bool }

func (results) Namespaces() []string { return []string{"lab", "shop"} }

func (results) Namespace(name string) ([]result.Result, result.Counts) {
	if name != "shop" && name != "lab" {
		return nil, nil
	}
	var all []result.Result
	for i := range 1200 {
		all = append(all, result.Result{
			Object: result.Identity{APIVersion: "v1", Kind: "Pod", Namespace: name, Name: fmt.Sprintf("pod-%04d", i)},
			Policy: usher.PolicyRef{Kind: "ClusterObjectPolicy", Name: fmt.Sprint("policy-", i%2)}, Rule: "spec.validations[0]", Status: result.Fail, Message: "no",
		})
	}
	if name == "shop" {
		all = append(all, result.Result{
			Object: result.Identity{APIVersion: "v1", Kind: "Pod"},
			Policy: usher.PolicyRef{Kind: "ClusterObjectPolicy", Name: "policy-0"}, Rule: "spec.validations", Status: result.Skip, Message: "it is for a subresource",
		})
	}
	policy := func(name string) usher.PolicyRef { return usher.PolicyRef{Kind: "ClusterObjectPolicy", Name: name} }
	return all, result.Counts{policy("policy-0"): {Fail: 700, Skip: 2}, policy("policy-1"): {Fail: 600, Pass: 3}, policy("passes"): {Pass: 4}}
}

func (results) Changes(uint64) ([]string, uint64, <-chan struct{}) { return nil, 0, nil }

func (r results) Kinds() []result.KindState {
	pods := result.Kind{Resource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}, Kind: "Pod", Namespaced: true}
	return []result.KindState{{Kind: pods, Objects: 2700, Backlog: 3, Complete: r.complete}}
}

// A rig is a cluster with replicas, and users who have files with tokens.
type rig struct {
	t       *testing.T
	dir     string
	cluster *delegatedtest.Cluster
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, dir: t.TempDir(), cluster: delegatedtest.NewCluster(t)}
	r.cluster.Grant("admin", "list", delegated.AuditResults, "")
	r.cluster.Grant("ann", "list", delegated.AuditResults, "shop")
	for _, user := range []string{"admin", "ann", "nobody"} {
		r.write(user, []byte(r.cluster.Token(user, delegatedtest.Audience)))
	}
	return r
}

func (r *rig) write(name string, content []byte) {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, name), content, 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// replica returns the URL of a replica that audits, or of one that does not if the reader is nil.
func (r *rig) replica(reader result.Reader, leader string) string {
	r.t.Helper()
	api, err := delegated.New(delegated.Options{
		Client: r.cluster.Client, Audiences: []string{delegatedtest.Audience}, Log: slog.New(slog.DiscardHandler),
		Handlers: map[string]http.Handler{delegated.AuditResults: auditapi.New(auditapi.Options{
			Reader: func() result.Reader { return reader }, Leader: func() string { return leader },
		})},
	})
	if err != nil {
		r.t.Fatal(err)
	}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if name := request.URL.Query().Get("policy"); strings.HasPrefix(name, "polcy-") {
			w.Header().Set("Warning", fmt.Sprintf("299 - %q", "there is no policy "+name))
		}
		api.ServeHTTP(w, request)
	}))
	r.t.Cleanup(server.Close)
	r.write("ca.crt", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	return server.URL
}

// audit runs usher audit as a user.
func (r *rig) audit(user string, args ...string) (stdout, stderr string, status int) {
	r.t.Helper()
	var out, err bytes.Buffer
	s := cli.Streams{In: strings.NewReader(""), Out: &out, Err: &err}
	newRoot := func(s cli.Streams) *cobra.Command {
		root := &cobra.Command{Use: "usher"}
		root.AddCommand(observe.Audit(s))
		return root
	}
	args = append([]string{"audit", "--ca-file", filepath.Join(r.dir, "ca.crt"), "--token-file", filepath.Join(r.dir, user)}, args...)
	status = cli.Execute(r.t.Context(), newRoot, s, args)
	return out.String(), err.String(), status
}

// TestAuditOfAServer reads all pages of the replica that audits, whichever it is.
func TestAuditOfAServer(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	other, leader, reading := r.replica(nil, "usher-1"), r.replica(results{complete: true}, ""), r.replica(results{}, "")
	for _, row := range []struct {
		reason, user string
		args         []string
		status       int
		// out and err are in the output, each line of them.
		out, err string
	}{
		{"everything, also that more is counted than listed", "admin", []string{"--server", leader}, cli.ExitNegative,
			"v1 Pod shop/pod-1199\n1400     0     4     0  ClusterObjectPolicy policy-0\n1200     0     0     6  ClusterObjectPolicy policy-1\n2700 objects of 1 kind, 3 policies with results: 2600 fail, 4 skip, 14 pass\nnot listed:  200 results more", ""},
		{"what judges no objects of a kind", "ann", []string{"--server", leader, "-n", "shop"}, cli.ExitNegative, "not judged:  ClusterObjectPolicy policy-0 spec.validations: it is for a subresource", ""},
		{"in JSON", "ann", []string{"--server", leader, "-n", "shop", "-o", "json"}, cli.ExitNegative, "\"notJudged\": [\n\"reason\": \"it is for a subresource\"", ""},
		{"the first replica does not audit", "admin", []string{"--server", other, "--server", leader}, cli.ExitNegative, "2600 fail, 4 skip, 14 pass", ""},
		{"a namespace", "ann", []string{"--server", leader, "-n", "shop"}, cli.ExitNegative, "\nnamespace shop, 3 policies with results: 1300 fail, 2 skip, 7 pass", ""},
		{"a policy", "ann", []string{"--server", leader, "-n", "shop", "--policy", "policy-1"}, cli.ExitNegative, "1 policy with results: 600 fail, 3 pass", ""},
		{"no such policy", "ann", []string{"--server", leader, "-n", "shop", "--policy", "polcy-1"}, cli.ExitUnusable, "", "usher: --policy: there is no policy polcy-1"},
		{"a namespace without objects does not look healthy", "admin", []string{"--server", leader, "-n", "empty"}, cli.ExitNegative, "nothing was audited", ""},
		{"an audit that is not complete is an error", "admin", []string{"--server", reading, "--fail-on", "error"}, cli.ExitNegative, "not complete:  pods (v1): 2700 objects so far, 3 to be judged", ""},
		{"an audit that is complete", "admin", []string{"--server", leader, "--fail-on", "error"}, cli.ExitOK, "2600 fail", ""},
		{"no right", "ann", []string{"--server", leader}, cli.ExitUnusable, "", "cannot list resource \"auditresults\"\nhint: name a namespace with -n"},
		{"another namespace", "ann", []string{"--server", leader, "-n", "lab"}, cli.ExitUnusable, "", "hint: have an administrator grant you list on auditresults.usher.dev in namespace lab"},
		{"only another replica audits, and one namespace is asked for", "ann", []string{"--server", other, "-n", "shop"}, cli.ExitUnusable, "", "'usher audit --from-cluster -n shop' audits without a server"},
		{"only another replica audits", "admin", []string{"--server", other}, cli.ExitUnusable, "", "replica usher-1 audits the cluster: ask that one; if it has ended, another one takes over within 20 s; 'usher audit --from-cluster' audits without a server"},
	} {
		stdout, stderr, status := r.audit(row.user, row.args...)
		if status != row.status {
			t.Errorf("%s: status %d, want %d: %s", row.reason, status, row.status, stderr)
		}
		for _, check := range []struct{ got, want string }{{stdout, row.out}, {stderr, row.err}} {
			for line := range strings.SplitSeq(check.want, "\n") {
				if !strings.Contains(check.got, line) {
					t.Errorf("%s: the output does not have %q:\n%s", row.reason, line, check.got[max(0, len(check.got)-2000):])
				}
			}
		}
	}
}

// TestSARIFOfExemptedResults: with exemptions the results are those without them, and suppressed.
func TestSARIFOfExemptedResults(t *testing.T) {
	t.Parallel()
	const policy, exempt = `apiVersion: usher.dev/v1alpha1
kind: ClusterObjectPolicy
metadata: {name: %[1]s}
spec:
  %[2]s
  matchConstraints:
    resourceRules: [{apiGroups: ["", apps], apiVersions: [v1], operations: [CREATE], resources: [pods, deployments]}]
  %[3]s
---
`, `apiVersion: usher.dev/v1alpha1
kind: ClusterPolicyExemption
metadata: {name: %[1]s-%[2]d}
spec: {reason: a migration, owner: ops, expiresAt: "2999-01-31T12:00:00Z", policyRefs: [{kind: ClusterObjectPolicy, name: %[1]s%[3]s}]}
---
`
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	host := `validations: [{name: host, expression: "!object.spec.hostNetwork", message: on a host}, {name: never, expression: "false", message: never}]`
	var policies, exemptions strings.Builder
	for name, spec := range map[string][]string{
		"deny": {"", host}, "warn": {"bindings: [{validationActions: [Warn]}]", host}, "record": {"bindings: [{validationActions: [Audit]}]", host}, "error": {"", `validations: [{expression: object.spec.none == 1}]`},
		"changes": {"", `mutations: [{patchType: JSONPatch, jsonPatch: {expression: '[JSONPatch{op: "add", path: "/spec/priority", value: 1}]'}}]`},
	} {
		fmt.Fprintf(&policies, policy, name, spec[0], spec[1])
		if name == "warn" {
			fmt.Fprintf(&exemptions, exempt, name, 0, ", validations: [host]")
			fmt.Fprintf(&exemptions, exempt, name, 1, ", validations: [never]")
			continue
		}
		fmt.Fprintf(&exemptions, exempt, name, 0, "")
	}
	pod := write("pod.yaml", `{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {hostNetwork: true, containers: [{name: a, image: a}]}}`)
	deployment := write("deployment.yaml", `{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, spec: {selector: {matchLabels: {a: a}}, template: {metadata: {labels: {a: a}}, spec: {hostNetwork: true, containers: [{name: a, image: a}]}}}}`)
	args := []string{"audit", "-o", "sarif", "--fail-on", "none", "-p", write("policies.yaml", policies.String()), pod, deployment}
	plain, suppressed := sarifOf(t, args), sarifOf(t, append(args, "-p", write("exemptions.yaml", exemptions.String())))
	if len(plain) < 12 {
		t.Errorf("%d results", len(plain))
	}
	for key, why := range plain {
		if why != "" || !strings.HasPrefix(suppressed[key], "external accepted ClusterPolicyExemption ") || !strings.HasSuffix(suppressed[key], ": a migration") {
			t.Errorf("%s: suppressed %q without an exemption, and %q with one", key, why, suppressed[key])
		}
	}
	if len(suppressed) != len(plain) {
		t.Errorf("%d results, want %d: %v", len(suppressed), len(plain), suppressed)
	}
}

// sarifOf returns the suppressions of results by what code scanning knows these by.
func sarifOf(t *testing.T, args []string) map[string]string {
	t.Helper()
	var out, errs bytes.Buffer
	newRoot := func(s cli.Streams) *cobra.Command {
		root := &cobra.Command{Use: "usher"}
		root.AddCommand(observe.Audit(s))
		return root
	}
	if status := cli.Execute(t.Context(), newRoot, cli.Streams{In: strings.NewReader(""), Out: &out, Err: &errs}, args); status != cli.ExitOK {
		t.Fatalf("status %d: %s%s", status, &out, &errs)
	}
	var log struct {
		Runs []struct {
			Results []struct {
				RuleID, Level       string
				PartialFingerprints map[string]string
				Suppressions        []struct{ Kind, Status, Justification string }
			}
		}
	}
	if err := json.Unmarshal(out.Bytes(), &log); err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, r := range log.Runs[0].Results {
		why := ""
		for _, s := range r.Suppressions {
			why += s.Kind + " " + s.Status + " " + s.Justification
		}
		all[fmt.Sprint(r.RuleID, " ", r.Level, " ", r.PartialFingerprints)] = why
	}
	return all
}
